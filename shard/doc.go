// Package shard holds the values that everybody agrees on, and the arithmetic over them: which
// shard a key belongs to, which of two owners is the newer, and who should own what. It does no
// I/O, reads no clock and starts no goroutine, so nodes, gateways and producers can all import it.
//
// # From key to shard
//
// A [Group] names a fixed number of shards. [Group.Of] is hash(key) mod shards and nothing else,
// so any language can compute it; [XXH64] and [Murmur2] list test vectors. The mapping outlives
// every process that uses it: data, topics and fences are laid out by it.
//
//	var Accounts = shard.Group{Name: "accounts", Shards: 256}
//
//	n := Accounts.Of("alice")
//
// # From owner to epoch
//
// Each time a shard changes hands its new owner has a higher [Epoch]. A [Token] carries group,
// shard and epoch to wherever the owner's work has an effect. A resource that remembers the
// highest epoch it has seen, and refuses lower ones, can't be written by an owner that has been
// replaced, however long that owner was paused. Without that check at the resource an epoch
// protects nothing: this package only makes the number.
//
// # From members to placement
//
// A [Planner] says which member should own which shard. It is a function of what the store holds
// now: a planner that takes over from another, knowing nothing of the past, goes on where the
// other stopped. In order of importance it
//
//  1. gives every shard that some eligible member can start an owner,
//  2. keeps each member's load within its quota, its share by weight rounded up or down,
//  3. takes as few shards from healthy owners as any such placement does,
//  4. keeps the moves that are under way, and
//  5. follows the choice of a consistent-hash ring where it is still free, so that placements
//     made at different times resemble each other.
//
// The second to fourth are one minimum-cost flow, solved exactly; see [Planner.Plan] for the
// terms, and for the one limit on "exactly".
package shard
