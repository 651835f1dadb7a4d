// Package cas commits conditional transactions to a store with revisions and leases, and says
// what became of them. The store is etcd (package etcdkv) or memory (package memkv).
//
// # Conditional transactions
//
// A [Txn] is a list of conditions and a list of changes: if every condition holds, every
// change is made, all under one revision; if one fails, none is, and the error is a
// [*ConflictError] that carries what is there now. So a retry needs no second read:
//
//	entry, err := store.Get(ctx, key)
//	for err == nil {
//		_, err = store.Commit(ctx, cas.Txn{
//			If:   []cas.Cond{cas.AtRev(key, entry.Rev)},
//			Then: []cas.Op{cas.Put(key, next(entry.Value))},
//		})
//		conflict, ok := err.(*cas.ConflictError) // its own, and not one in the cause of ctx's end
//		if !ok {
//			break
//		}
//		entry, err = conflict.Current[0], nil
//	}
//
// [Update] is that loop for JSON values of one key, with bounded tries and fully jittered waits
// between them; [UpdateAll] is the same for several keys, each of which, read or written, is a
// condition. Both run the function they are given in the caller's goroutine, keep to the caller's context,
// and tell [UpdateConfig].Observe how many tries and conflicts it took. Conditions are on a key's
// metadata: the revision of its last change ([AtRev]), the revision that created it
// ([CreatedAt], [Absent]), its lease ([LeasedTo]). A shard's owner adds its Tenure's Guard, so
// that a commit fails once somebody else owns the shard.
//
// # Three outcomes
//
// A commit is applied, or not applied, or uncertain: the reply was lost, and the transaction
// may have been applied or may yet be. Uncertain is never reported as one of the others, and
// reading the old value afterwards proves nothing, since the request may still be on its way.
// [OutcomeOf] answers for every error of this module; errors from elsewhere are uncertain.
//
//	Applied     go on
//	NotApplied  safe to try again, here or by the client
//	Uncertain   find out before trying again: with a receipt, or from the application's data
//
// No store sends a write twice by itself.
//
// # Receipts
//
// A blind second try is wrong after an uncertain first: it may apply the operation twice, or,
// seeing its own effect as somebody else's, report a conflict that is none. An operation that
// must not suffer that gets an id, [UpdateConfig].Receipt. Update then writes a receipt in the
// same transaction as the value, on the condition that the receipt is as it was seen before:
//
//   - A receipt that says "applied" ends every later Update with this id, in any process, with
//     the value that was stored, and without applying anything. (What f would do now, or whether
//     the guards still hold, plays no part.)
//   - After a lost reply, Update writes the receipt as "aborted" where the lost try expected
//     none. If that succeeds, the lost try's condition can never hold again: it is not applied,
//     for good, and Update tries anew. If it conflicts, the receipt that is there tells.
//   - If the store stays away, the result is [ErrUncertain], and a later Update with the same
//     id, or [Resolve], goes on from there.
//
// What stays uncertain, then, is what nobody has asked about since the store came back. No
// waiting and no reading settles it: only a change to the receipt does.
//
// An operation whose effect is not in the store needs an id that is stored with the effect,
// wherever that is.
//
// # How long receipts are kept
//
// A receipt that is deleted makes a later retry a first try, so something has to know that it is
// too late. An id made by [Dated] carries the time at which the operation began, and [Sweep]
// forgets the receipts of operations that began longer ago than it is told:
//
//	id := cas.Dated(order.Created, order.ID) // once, and kept with the order
//	…
//	deleted, err := cas.Sweep(ctx, store, 24*time.Hour) // each hour, say
//
// Before it deletes anything it raises a horizon, a date in the store that only rises. Every try with a
// dated receipt depends on the horizon that was read together with the receipt. From then on an
// operation that began before it can't be applied, neither by a retry nor by a request that has
// been under way all the time; a retry gets [ErrReceiptExpired]. That holds whatever any clock says.
//
// So the rule for callers is: retry within that age, and take ErrReceiptExpired as the end, to be
// looked into by means of the application's own data. Receipts without a date stay until somebody
// deletes them; [ReceiptKey] says where they lie and when that is safe.
//
// # Views and watches
//
// A watch is a hint, however good. To keep a view of a prefix: List it, Watch from the
// snapshot's revision on, apply each [Change] whole, in order, and never go backwards; when
// the watch breaks ([ErrCompacted], [ErrNoLeader]), List again. Check now and then with
// Digest at the view's revision, and List only if it differs: etcd has lost delete events
// around compactions (etcd#18089, etcd#19179). Ask for Progress to tell a quiet prefix from a
// dead watch. A commit's reply changes no view: act on it once the view has reached the
// reply's revision.
//
// # Leases and the clock
//
// A lease lasts for its TTL from the renewal's arrival at the store. The holder does not see
// the arrival, so it counts from the moment of sending: its trust ends early, never late. It
// counts with the store's [Clock], which goes on while the machine is suspended. A key put
// under no lease is detached from the one it had; a put under a lease that is gone fails the
// whole transaction with [ErrLeaseNotFound].
//
// # Restores
//
// A store that was restored from a backup may go back in its revisions. Snapshot and Digest
// carry the revision and the cluster's identity, and a revision that was seen once and is now
// in the future is [ErrFutureRev].
package cas
