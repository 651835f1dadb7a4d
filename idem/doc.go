// Package idem makes an operation happen once per key, and gives later tries its result.
//
// A client that got no answer tries again. A queue delivers a job twice. A shard's owner dies in the
// middle of a payment, and the next one finds it half done. In each case the same operation comes again,
// under the same key, and must not happen again:
//
//	req := idem.Request{Scope: p.Tenant, Key: p.ID, Fingerprint: p.Hash(), Token: owner.TokenFrom(ctx)}
//	receipt, err := idem.Do(ctx, engine, req, func(ctx context.Context, op *idem.Op) (Receipt, error) {
//		charge, err := idem.Step(ctx, op, "charge", func(ctx context.Context, key string) (string, error) {
//			return provider.Charge(ctx, p, key) // key is the provider's own idempotency key
//		})
//		if err != nil {
//			return Receipt{}, err
//		}
//		return sqlidem.StepTx(ctx, op, "book", func(tx *sql.Tx) (Receipt, error) { … })
//	})
//
// # A try's way
//
// A try first claims the operation: it writes a record that names it, on the condition that there is
// none, or that the one that is there may be taken over. While fn runs the claim is extended. Each Step records
// its value. The result ends the operation, and from then on every try gets it and runs nothing.
//
//	record there is                                   a try
//	none                                              runs
//	of another fingerprint                            *MismatchError, before anything else is looked at
//	done                                              gets the result
//	failed (Final)                                    *FailedError
//	finished longer than Keep ago                     *ExpiredError
//	running, its attempt lasts                        *InProgressError, or waits (Request.Wait)
//	running, its attempt has ended                    takes over: it was interrupted
//	running, under an older epoch of the shard        takes over at once: it was interrupted
//	of a newer epoch, and not finished                *SupersededError
//	given up after an error                           runs, with the steps that were recorded
//
// Lookup tells which of these an operation is in, and runs nothing.
//
// An interrupted try is one that nobody knows the end of. Request.Interrupted says what to do then: Retry it,
// Block until a person has looked, or Reconcile by a function that finds out.
//
// # What happens once
//
// Nothing, by itself: a process may crash between an effect and the record of it. What this package does is
// to make the gap harmless where that is possible:
//
//   - An effect in the database that holds the records: sqlidem.StepTx and DoTx commit both together. It
//     happens exactly once.
//   - An effect at a third party that honours idempotency keys: Step gives a key that is the same on every
//     try, in whatever process, after takeovers and even after the record was lost. It happens once, as far as the
//     third party keeps its word.
//   - An effect at a receiver that takes no key but can be asked: Reconcile.
//   - An effect in a batch of owner/writer: give the command op.Key("…") (From finds op), and in Apply's transaction look for that id
//     first. If it is there, reply with what is stored beside it; else insert it with the effect.
//   - Any other: Block. Then it happens at most once, and sometimes a person has to look.
//
// # Lost replies
//
// Every write carries a claim id that the try has drawn itself, and a count. If the reply to a write is
// lost, the same write is sent again, which can do no harm: each is on a condition that the other breaks. Then it is
// applied, or what is there tells whether it is this try's own. So a claim that was made is never taken
// for a rival's, and a result that was recorded is never reported as lost. If the store stays away for Config.Finish, the
// error is a *FinishError, whose outcome is uncertain; a later try gets the result or runs again.
//
// Recording goes on for as long after the caller's context has ended: what was done is not forgotten
// because nobody waits for it.
//
// # Three clocks
//
//	Attempt    how long a try that is not heard of keeps others out
//	Keep       how long a result is replayed
//	Tombstone  how long after that a late try is told that it is late
//
// All are the store's own clock's, so no two machines have to agree. After the tombstone a key is as new. A token makes
// the first one matter little: a shard's next owner does not wait.
//
// # Stores
//
// OnCAS keeps records in etcd or in memory, sqlidem in Postgres, MySQL, MariaDB or SQLite, and
// sqlidem/pgxidem in Postgres through pgx. Others can be written: idemtest holds them to what Store says.
//
// HTTP is a middleware for the header Idempotency-Key, grpcidem an interceptor, and kafkaidem makes the records of a topic operations. What
// clients of HTTP should know is in [README.md].
//
// [README.md]: https://github.com/tenure-go/tenure/tree/main/idem
package idem
