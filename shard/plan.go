package shard

// PlanInput is level state: what the store says, nothing remembered. Slices and maps are only
// read, and only during Plan.
type PlanInput struct {
	Members []Candidate
	Owners  []string  // by shard: the holder's ID, "" if unclaimed. A holder not in Members is dead but not yet gone: its shards are left alone
	Moves   []Pending // moves that the store holds
	Pins    map[int]string
	Avoids  map[int][]string // by shard: members that it can't start on for now

	MaxMoves  int // most moves in flight, pending ones included. 0: no limit
	MaxDrains int // likewise, apart from MaxMoves, for moves off members that drain or weigh nothing. 0: no limit
}

// Candidate is a member as the planner sees it.
type Candidate struct {
	ID       string
	Weight   int  // <= 0: owns nothing
	Draining bool // gives all away
	Settling bool // joined just now: in no quota, and a target only for orphans that no settled member can take
	Opaque   bool // its record is of a newer format: keeps what it owns, is given nothing
}

// Pending is a move that the store holds: Shard is to go to To.
type Pending struct {
	Shard int
	To    string
}

// Plan is what to do now. Lists are in the order of shards.
type Plan struct {
	Grants  []Change // unclaimed shards: From is ""
	Moves   []Change // new orders
	Cancels []Change // pending moves that no longer fit
	Unowned []int    // unclaimed shards that every eligible member avoids, or all if there is none
}

// Change says which shard goes from where to where, and why.
type Change struct {
	Shard    int
	From, To string
	Reason   Reason
}

// Reason is why a shard moves.
type Reason string

// Why the planner changes something.
const (
	Orphan   Reason = "orphan"   // nobody owned it
	Balance  Reason = "balance"  // its owner had more than its quota
	Pinned   Reason = "pin"      // an operator pinned it
	Avoided  Reason = "avoid"    // its owner can't start it
	Drain    Reason = "drain"    // its owner drains or weighs nothing
	NoTarget Reason = "target"   // cancel: the target is no longer eligible, or avoids the shard
	Unneeded Reason = "unneeded" // cancel: the move no longer helps
)
