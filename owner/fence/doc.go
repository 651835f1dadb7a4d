// Package fence refuses side effects of an owner that has been replaced.
//
// Ownership by itself is a promise that clocks keep: a process can be paused between deciding to
// write and writing, for longer than any lease, and wake up as a zombie that still believes. Only
// the resource that is written to can stop it. That is invariant I6 of package owner, and it is
// what makes double work harmless instead of rare:
//
//	A sealed resource accepts no write under an epoch other than the one it was last sealed with.
//
// There are two verbs. A new owner calls Seal before it reads any state; from then on no older
// owner's write can land, so what is read next stays true. Each write carries the owner's
// shard.Token and is guarded: the resource lets it pass only if the token's epoch is the very one
// that was sealed. Equal, not at least: a higher one that never sealed has read state that an older
// owner may still change.
//
//	if err := fences.Seal(ctx, t.Token()); err != nil {
//		return err
//	}
//	state := load(ctx) // in a transaction begun after Seal returned, on the primary
//	t.Ready()
//	...
//	err := fences.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = $1 WHERE id = $2", b, id)
//		return err
//	})
//
// # What refused means
//
//	error            meaning                                       what to do
//	*FencedError     a newer owner has sealed                      stop; the shard is lost
//	ErrNotSealed     the resource does not know this epoch yet:    end the tenure; the next one
//	                 no Seal, or a failover forgot it              seals and loads again
//	*GroupError      another cluster's group of the same name      give one of them another table
//	*PositionError   this input was consumed already               end the tenure; ask Position again
//	ErrToken         no token, or one that no tenure made          take it from Tenure.Token
//	cas.ErrUncertain the commit's reply was lost                   find out by an operation id, or
//	                                                               end the tenure and load again
//
// All but the last mean that nothing was applied, and cas.OutcomeOf says so.
//
// owner.Tenure.Fail ends a tenure from anywhere. Tx calls it on the first two, if its context comes from the
// tenure or SQL.Serve is the handler. Otherwise call Fail yourself; on cas.ErrUncertain too, with state in
// memory.
//
// A zombie's context often ends before its write is refused, and then the context's error is what
// it sees. That is chance, not safety: the fence holds just the same under a context that never ends.
//
// # What is fenced
//
// SQL fences Postgres, MySQL, MariaDB and SQLite; see there for what each needs. Package pgxfence does so
// for Postgres by pgx, in fewer round trips; objectfence fences an object in a bucket; redisfence does what Redis
// allows, which is not all. Gate fences a server of your own, to which SetHeader and FromHeader carry
// the token. In the store that holds the claims, owner.Tenure.Guard is the fence. A log is fenced by
// its order: its consumer drops records of an epoch below the highest that it has seen. A resource
// that can compare nothing, such as mail or somebody else's API, cannot be fenced at all: give each
// effect an idempotency key that the receiver remembers.
//
// For a fence of your own there are State, which is the rule, and package fencetest, which tells whether you
// have kept it.
//
// A test needs no cluster for a stale token: seal with one shard.Token literal and write with another, whose Epoch,
// of shard.NewEpoch, is lower (fencetest.Token makes such).
//
// A token guards its own shard. Check Tenure.Owns before writing under a key that came from
// elsewhere; work across two shards is two transactions, each under its own token and with an
// idempotency key in between, never one transaction under one of the tokens.
package fence
