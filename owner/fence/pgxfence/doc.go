// Package pgxfence fences a Postgres database through pgx: the fence of package fence without
// database/sql between, and with fewer round trips.
//
//	fences, err := pgxfence.New(pool, pgxfence.Config{})
//	node, err := owner.New(store, group, fences.Serve, owner.Config{Address: addr})
//	...
//	err := fences.Tx(ctx, t.Token(), func(tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "UPDATE account SET balance = balance + $2 WHERE id = $1", id, amount)
//		return err
//	})
//
// It uses the tables, sequence and function that fence.SQL uses, in the same way: some processes may write through one and some
// through the other. What a refusal means, and what a fence can't do, is told in package fence.
//
// # Round trips
//
//	Tx     BEGIN and the settings | whatever fn sends | guard and COMMIT
//	Batch  all of it
//
// A Batch is the cheapest guarded write there is: BEGIN, the caller's statements, the guard and COMMIT
// leave in one piece. That works because the guard fails in the server: Postgres then skips the COMMIT
// that is on its way already. Anything the client looks at comes too late, so a Batch's statements must
// fail by themselves where they are to stop the commit (constraints, a division by a count of rows);
// what can't be said like that belongs into a Tx.
//
// # Poolers
//
// There is no session state: every setting is SET LOCAL, the guard's locks end with the transaction, and
// no LISTEN, temporary table or advisory lock of a session is used. So a pooler may pool transactions (pgbouncer's
// pool_mode=transaction), though not statements. What a pooler must know of is pgx's prepared
// statements: pgbouncer does from 1.21 on (max_prepared_statements above 0); before that set
// default_query_exec_mode=exec, or simple_protocol, in the connection string. All modes of pgx work.
//
// # A process that is paused
//
// It holds the rows that it has written, and its successor waits for them, until the server gives the
// process up. What makes the server do so depends on what it waits for:
//
//	the next command, between two round trips   idle_in_transaction_session_timeout: Config.Idle
//	its results being read                      tcp_user_timeout: Config.Idle
//	the rest of what it began to send           Config.Terminate; transaction_timeout on Postgres 17
//	                                            and later, set on the role or at connect
//
// A Batch of ordinary size is never in between: it leaves in one write, and Postgres then needs nothing
// more of the client, its COMMIT included, unless results fill the buffers of the connection.
package pgxfence
