// Package owner gives each shard of a group one owner at a time, under an epoch.
//
// A program makes a Node with a Handler and runs it. The node joins its group, is granted
// shards, and runs the Handler once for each tenure: one uninterrupted period in which it owns one
// shard, under one epoch. Requests for a key go through Do or Enter, which admit them while the
// tenure is open and send them elsewhere when it is not. The tenure's token goes with every
// side effect, and the resource refuses an older one; see package fence.
//
//	node, err := owner.New(store, accounts, fences.Serve, owner.Config{Address: addr})
//	...
//	go node.Run(ctx)
//	...
//	err = node.Do(ctx, "alice", func(ctx context.Context, t *owner.Tenure) error {
//		return fences.Tx(ctx, t.Token(), deposit)
//	})
//
// # What is guaranteed, and what is not
//
// Ownership is a lease. No lease can promise that its holder does not act after its end: the process can be stopped
// between the check and the write. So what this package promises by itself is that double work is rare, and
// what a fence adds to it is that double work does no harm (I6). Where nothing can compare epochs, use an idempotency key at the
// resource, or set NeverForce and accept that a stuck handler holds its shard until its process dies; a
// process that is stopped and continued can still act late.
//
// # Invariants
//
// Comments and tests cite these by number.
//
//	I1   At any revision a shard has at most one claim, and a claim is written only by GRANT, TRANSFER,
//	     RECLAIM, RELEASE and REAP.
//	I2   A shard's epochs strictly increase, across lineages too.
//	I3   A node admits work only while now < sent + TTL - margin.
//	I4   A handler never runs twice under one epoch, and never starts under one that is not above all
//	     before it.
//	I5   A claim is transferred only after admission closed, nobody is inside and the handler has returned, or the
//	     tenure was given up on and that was reported as forced.
//	I6   A sealed resource accepts no write under an epoch other than the one it was last sealed with.
//	I7   Only the oldest member's plan lands.
//	I8   A healthy owner loses a shard only to balance, a pin, an avoid or a drain, and the number of moves is
//	     the least that balance needs.
//	I9   Once membership is stable and the store can be reached, within bounded time every shard that some
//	     eligible member does not avoid has a live owner, loads are within quota (save what pins force),
//	     and no move is left.
//	I10  A hand-off in good order fails no request, if it fits in WaitTimeout and no more than MaxWaiting wait.
//	     Otherwise a request that was not admitted gets an error that says so, and one cut off after admission
//	     one that says that its outcome is uncertain.
//
// I1 to I5 and the clock make double work rare. Only I6 makes it safe.
//
// # A tenure's life
//
//	        claim is mine, trust,
//	        epoch above all before            t.Ready
//	idle ─────────────────────────▶ starting ─────────▶ serving
//	 ▲ ▲                               │  │               │  │
//	 │ │            a move, leaving, or a raised lineage  │  │
//	 │ │                               └──┼──────┬────────┘  │
//	 │ │                                  │      ▼           │  trust or claim gone,
//	 │ │                                  │   closing        │  handler failed,
//	 │ │   Draining is closed, arrivals   │      │           │  not ready in time
//	 │ │   wait, those inside finish      │      │ nobody    │
//	 │ │                                  │      ▼ inside    │
//	 │ │   ctx ends with ErrHandoff,      │   ending ◀───────┘  contexts end with
//	 │ └── the handler flushes ───────────┼── (handed off)      *LostError
//	 │       and returns                  └──▶ ending (lost)
//	 │                                            │
//	 └──── the handler returns, nobody inside ────┘
//
// From idle with the claim still held: TRANSFER if a move is pending, else RECLAIM and start again, with a growing back-off
// after failures; RELEASE after three failed starts in a row. Past DrainTimeout in closing or ending all contexts end and the
// tenure is given up on: TRANSFER or RELEASE go on without it. That is what Forced reports, and what
// NeverForce forbids.
//
// # Epochs, trust and the clock
//
// A claim's modification revision is its epoch's revision. Nothing but the five transactions of I1 writes a claim, each
// compares what it replaces, so epochs grow by themselves.
//
// Trust is the time in which a node may act as owner. A renewal gives it, from the moment the request was sent, for
// the TTL that the server returned less a margin (a tenth, at least 200 ms), and only once the node's view has reached
// the revision of the reply: a node that can renew but not see is not fit to own. Each gate reads the clock at each
// entry, so no goroutine has to run for it to refuse. The clock comes with the store and counts suspend.
//
// # Transactions
//
// C is the config's revision as seen, P the planner's own member's create revision. Every put names its lease.
//
//	JOIN      if members/i absent, C                            then put members/i @L
//	UPDATE    if members/i as seen                              then put members/i @L
//	GRANT     if P, C, members/b as seen, claims/s absent       then put claims/s=b @L_b, delete moves/s
//	MOVE      if P, members/b as seen, claims/s @ its holder's, moves/s absent
//	                                                            then put moves/s=b @L_b
//	CANCEL    if P, moves/s as created                          then delete moves/s
//	DECLINE   if moves/s as created                             then delete moves/s, put avoid/s/i @L_i
//	READY     if moves/s as created                             then put moves/s=b,ready @L_b
//	TRANSFER  if C, members/b as seen, claims/s at my epoch, moves/s as created
//	                                                            then put claims/s=b @L_b, delete moves/s
//	RECLAIM   if C, members/i as created, claims/s at my epoch  then put claims/s=i @L_i
//	RELEASE   if claims/s at my epoch                           then delete claims/s, put avoid/s/i @L_i
//	REAP      if P, claims/s as seen                            then delete claims/s
//	CONFIG    if config absent                                  then put config
//	UNAVOID   if avoid/s/i as created                           then delete avoid/s/i
//	PROBE     if members/i as created                           then put probes/i @L_i
//
// Where members/i is a record under no lease, an operator's put, JOIN deletes it first and then joins: put over it, the
// member would keep its creation, and be older than those that were there before. P is compared by the store; besides,
// a planner plans only while it has trust.
//
// PROBE asks whether the store takes writes, before a gate is closed for a hand-off that could not be written otherwise; it
// is left out if a put was applied within the last second. A node closes a few shards at a time (a thirty-second
// of what it holds, at least two), so that each is dark for about as long as one hand-off takes, and not
// for as long as all of them.
//
// Up to 62 shards of one target share a transaction. A lost reply needs no special care: the same transaction
// sent again conflicts if the first was applied, and if the first arrives after the second it is the one that
// conflicts. Leaving is revoking the lease, with own trust zero before the request is sent.
//
// # What happens when
//
//	a process is killed        its lease expires (TTL + up to 0.5 s); its keys vanish in one revision; the planner
//	                           grants its shards anew in the next few commits
//	a process is stopped       the same; when it continues its gates refuse by the clock, and what had passed them
//	                           is refused by the fence
//	the store is away          tenures go on until trust ends, then end with LostError; afterwards each is claimed again
//	                           under a higher epoch once its handler has returned
//	the store is full          renewals go on, and so do tenures; no hand-off is begun, since a PROBE is refused first
//	a reply is lost            the view tells, or the transaction is sent again
//	the watch breaks           list, watch from there; one that falls silent is given up, one that lost events is
//	                           found out by a count
//	the planner dies           the next oldest goes on from what the store says; a late write of the old one fails on P
//	a target dies in a move    the move goes with its lease; the source goes on serving, or claims again
//	a handler fails or hangs   RECLAIM with back-off, RELEASE after three failed starts; given up on after DrainTimeout
//	the claim is gone          the tenure ends, whatever renewals say
//	the member key is gone     the lease is revoked and the node joins anew. A member key under no lease is nobody's
//	a tenure is given up       Tenure.Fail: like a handler's failure
//	leaving, the store away    Run ends with an error that counts the shards that wait for the lease to end
//	two processes, one id      the later waits for two TTL, then ends with IDTakenError. With Takeover it revokes the
//	                           earlier one's lease, before its first join only, and once
//	etcd restored from backup  revisions go back or the cluster id changes: the node ends with RestoredError. Raise the
//	                           lineage. After a restore that no node lived through nothing shows it: raise it too
//	config replaced, deleted   another group id, a lowered lineage: the node ends; every fence would refuse it
//	an operator's raise        every tenure ends in good order and is claimed again under the new lineage
//
// # Versions in one group
//
// Values carry a format number, 1 today. Programs of different versions may share a group while they are rolled:
// within a format fields are only added, and readers ignore those that they don't know. A change that an older reader must not
// overlook raises the number. Who plans does not depend on it: the oldest member does, and plans by its own
// version's rules for as long as it is there; plans of two versions may differ, but each is conditional on what it
// changes, so they can't do harm, and members leave one by one. An older planner that can't read a newer member
// leaves to it what it has and gives it nothing more. A claim that can't be read is still a claim, and a move that
// can't be read is never ready. A config of a newer format ends the node with a ConfigError: the group has moved on, so roll this
// program first.
package owner
