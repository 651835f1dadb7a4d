// Package sqlcas changes rows of SQL databases without locks held while somebody thinks: each row has a
// version, and a change names the version that it was made from. It also runs whole transactions again
// that the database refused because of others, and finds out what became of those whose commit was lost.
// It is for Postgres, MySQL, MariaDB and SQLite through database/sql; package pgxcas is the same for pgx.
//
// # Rows with a version
//
// A Table changes a row if its version is still the one that was read, in one statement, and says what is
// the matter otherwise:
//
//	accounts, err := sqlcas.NewTable(sqlcas.Postgres, "account", "version", "id")
//	…
//	var balance, version int64
//	err = db.QueryRowContext(ctx, "SELECT balance, version FROM account WHERE id = $1", id).Scan(&balance, &version)
//	…
//	version, err = accounts.Update(ctx, db, sqlcas.Key{id}, version, sqlcas.Set{"balance": balance - 30})
//	if conflict, ok := errors.AsType[*sqlcas.ConflictError](err); ok {
//		// somebody else was there first, and conflict.Current is the version now: read again, decide again
//	}
//
// This is for changes that a person or another service thinks about between the read and the write: the
// version goes with the form, or as an ETag, and comes back. Where writers seldom meet it costs about what
// SELECT … FOR UPDATE in a transaction does. Where many meet on one row, most tries are in vain: 16 clients on one row
// needed 7 tries each on Postgres and 5 on MariaDB, and 2 to 3 times as long as with FOR UPDATE, or 10 to 20
// times as long as with SET n = n + 1, which needs no version at all. Such a row wants an owner. (BenchmarkIncrement
// in internal/integration/sqlcas.)
//
// # Whole transactions
//
// DB.Retry runs a function in a transaction, and runs it again, in a new one, if the database has refused
// it because of others: a serialization failure, a deadlock, a lock that was not to be had. It waits at
// random in between. So the function may run several times, and nothing but its transaction may have an
// effect. It must return the errors of the database that it meets, wrapped or not.
//
//	db, err := sqlcas.New(pool, sqlcas.Postgres, sqlcas.Config{Tx: sql.TxOptions{Isolation: sql.LevelSerializable}})
//	…
//	err = db.Retry(ctx, func(tx *sql.Tx) error {
//		…
//	})
//
// # A commit whose reply was lost
//
// A COMMIT is sent, and the connection breaks: the transaction may have been applied or not, or may
// be applied yet, when the server comes to it. Run again blindly, it may be applied twice. So Retry does not
// do that; it returns cas.ErrUncertain. What finds out is a row that is written in the same transaction:
//
//	err = db.Once(ctx, "payment-4711", func(tx *sql.Tx) error {
//		…
//	})
//
// Once begins with a receipt: a row under the operation's id in a table of its own (DB.Schema). The table's
// unique key makes all other transactions of that operation wait until this one has ended. A transaction
// that finds the receipt there applies nothing, for the operation is done: nil. One that gets to write it
// knows that none before was applied, nor can be: a lost one would still hold the key. So Once tries again
// after a lost commit, and so may anybody, anywhere, later, with the same id.
//
// DB.Resolve answers without applying anything: Applied; or NotApplied, and then it has written a receipt
// of its own, "aborted", under the key that a lost transaction would still hold: no commit that was sent before
// can be applied any more. A Once with the id that is still running somewhere, or comes later, takes that over,
// and may apply the operation.
//
// If the server is not there, the answer is not either: Uncertain. The same if the lost transaction
// is still open at the server, which waits for its client: then Once and Resolve wait as long as their context
// allows. Let the server end what idles (Postgres idle_in_transaction_session_timeout, MariaDB
// idle_transaction_timeout), and notice dead clients (tcp_keepalives_idle, tcp_user_timeout).
//
// All that holds for one primary that keeps what it has committed. A failover to a replica that lacks the
// last commits loses receipt and effect together, and the next Once applies the operation again.
//
// # How long receipts are kept
//
// As in package cas: an id of cas.Dated says when its operation began, and DB.Sweep forgets the receipts
// of operations that began longer ago than it is told. First it raises a horizon, a row in the same table.
// Every transaction with a dated id looks at it after taking its receipt, and gets cas.ErrReceiptExpired
// if the operation began before. So a retry that comes too late, however late, is never a second
// application. Receipts without a date stay until somebody deletes them.
//
// # Together with a fence
//
// The owner of a shard adds its fence's guard as the last statement. A refused guard ends the effort, and
// nothing was applied:
//
//	err = db.Once(ctx, id, func(tx *sql.Tx) error {
//		if _, err := tx.ExecContext(ctx, "UPDATE …"); err != nil {
//			return err
//		}
//		return fences.Guard(ctx, tx, tenure.Token())
//	})
//
// fence.SQL.Tx makes one try, and its commit may be uncertain; this makes several, with a receipt.
package sqlcas
