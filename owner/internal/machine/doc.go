// Package machine is the ownership protocol as a pure state machine.
//
// A Machine is one node's part in it. Step takes the time and one event and returns the
// effects that the driver has to carry out; nothing else goes in or out. There is no I/O, lock,
// goroutine, context or clock in here, so a test can put a whole cluster of machines
// through any order of events, and the same order gives the same steps.
//
// # How it works
//
// The machine is driven by levels, not by edges. It keeps a View of the store
// and, for each shard that it has to do with, a slot: how far the local handler is. After every
// event it compares the two and does what brings them together; a slot waits for at most one
// transaction at a time, and after each for the view to reach the revision of the reply.
// Nothing that another node must learn is kept here only: the next planner, and this
// node after a re-list, go on from the store alone.
//
// Package owner's documentation has the rules, the transactions and the invariants I1 to I10
// that the comments here cite.
//
// # The driver's duties
//
//  1. Give Step times that never run backwards, and one event at a time.
//  2. Carry out the effects of a Step in their order, before the next Step. Those that
//     take time (GrantLease, Renew, Revoke, Commit, Relist, MakePlan, Start, Prepare, Close)
//     run elsewhere, and each is answered by exactly one event, however it ends; Close and
//     Lose by Drained, Start by Returned.
//  3. Call Step with a Tick at the time that Next names, or soon after.
//  4. A Renew's and a GrantLease's Sent is the time before the request was sent.
//  5. A Failed comes before whatever else the user's giving up brings about: the Drained, once in a
//     tenure, and the Returned.
//  6. After an Exit call Step no more.
package machine
