// Package writer applies a shard's commands one batch at a time: a single writer with group commit.
//
// The owner of a shard needs no lock, since nobody else writes. What it still pays is a transaction for each request.
// A Writer queues the commands of concurrent requests and applies all that wait in one transaction. While it commits, the next
// batch collects by itself: under load batches grow, and an idle shard's command is applied at once. Before it takes a batch it lets those
// run who were just told, so that their next commands are in it, too. It waits for nobody, and there is no timer to tune.
//
//	w := writer.New(func(ctx context.Context, t *owner.Tenure) (writer.Apply[Deposit, int64], error) {
//		if err := fences.Seal(ctx, t.Token()); err != nil {
//			return nil, err
//		}
//		// Load the shard's state here, if it is kept in memory.
//		return func(ctx context.Context, batch []*writer.Cmd[Deposit, int64]) error {
//			return fences.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
//				for _, c := range batch {
//					balance, err := deposit(ctx, tx, c.Value)
//					if err == errNoAccount {
//						c.Reject(err) // a "no" to this caller alone
//					} else if err != nil {
//						return err // rolls the batch back
//					} else {
//						c.Reply(balance)
//					}
//				}
//				return nil
//			})
//		}, nil
//	}, writer.Config{})
//	node, err := owner.New(store, Accounts, w.Serve, owner.Config{Address: addr})
//	...
//	// in a request, inside its tenure:
//	balance, err := w.Do(ctx, t, Deposit{Account: id, Amount: 5})
//
// # Order
//
// A shard's commands are applied in the order in which they were queued, by one goroutine for each tenure, also when
// a batch is split or a queue is full. A caller that queues its next command after Do has returned has it applied after the first.
//
// # What an error of Apply means
//
// A batch that failed for certain is tried again, so everything depends on whether the error says so truly:
//
//	Apply's error                                          the batch        the tenure
//	not applied (cas.OutcomeOf): of a fence's Tx whose     tried again      goes on
//	function failed, or marked with NotApplied             whole, once;
//	                                                       then in halves
//	fenced, not sealed, another group's, Guard's conflict  ErrEnded         ends
//	not applied, and the tenure's context has ended        ErrEnded         has ended
//	the 16th failure in a row, over all batches            ErrEnded, or     ends
//	                                                       its error, if
//	                                                       it is of one
//	any other: it may have been applied                    uncertain        ends
//	(cas.ErrUncertain, a plain error, a panic)
//
// Split down, the bad command stands alone in the end; its caller gets the error, and the others are served. To end a tenure
// (owner.Tenure.Fail) is to have state loaded again by the next one, for nobody knows any more whether what is
// in memory is what was stored.
//
// # What a caller learns
//
// Do returns exactly once, and cas.OutcomeOf answers for its error:
//
//	nil                  applied
//	*RejectedError       not applied: Apply said no to this command. Tell the client so yourself (409, FailedPrecondition): left to
//	                     router.WriteError it would be "try again", as all that is not applied
//	ErrFull              not applied: no room in the queue in time
//	ErrEnded             not applied: the tenure ended before; go on to the next owner
//	the context's        not applied if the command was still queued, uncertain once it was in a batch
//	ErrUnsettled         applied, but Apply gave no reply: a bug in it
//	Apply's              as its outcome says
//
// # Hand-off and loss
//
// Requests that run in the tenure are let finish before the hand-off goes on, so their commands are applied. What
// other goroutines have queued by then is drained, until Config.Drain after the hand-off began; what is left gets ErrEnded. At
// loss everything queued gets ErrEnded at once, and the batch under way what its Apply returns. A crash loses what was not
// acknowledged, and of that a batch may have been committed whose replies were never sent: a client that can't know gives its
// command an id that is stored with the effect. Look for it first in Apply's transaction, and if it is there Reply with what is
// stored beside it. Under idem.HTTP or idem.Do that id is op.Key("…"), since a retry after a crash runs the handler again, and
// with it Do.
package writer
