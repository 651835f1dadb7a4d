package machine

import (
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// Effect is what the driver has to do.
type Effect interface{ effect() }

type (
	// GrantLease: take a lease. Answered by LeaseGranted.
	GrantLease struct{ TTL time.Duration }

	// Renew the lease, once. Answered by Renewed.
	Renew struct{ Lease cas.LeaseID }

	// Revoke the lease. Answered by Revoked.
	Revoke struct{ Lease cas.LeaseID }

	// Commit the transaction, once. Answered by Committed.
	Commit struct {
		ID     uint64
		Kind   Kind
		Shards []int
		Txn    cas.Txn
	}

	// Relist: read the whole group anew. Answered by Listed, sooner or later.
	Relist struct{}

	// Progress: ask the watch how far it is. Not answered as such.
	Progress struct{}

	// MakePlan: run the planner. Answered by Planned.
	MakePlan struct{ In shard.PlanInput }

	// Trust: the gates admit until then (I3).
	Trust struct{ Until time.Duration }

	// Joined: this node is a member, under Created.
	Joined struct{ Created int64 }

	// Start a handler, admission closed. Prepared: the one that Prepare made, if it is still there.
	Start struct {
		Token    shard.Token
		Prepared bool
	}

	// Open admission.
	Open struct {
		Shard int
		Epoch shard.Epoch
	}

	// Close admission, for good, for a hand-off. Answered by Drained once nobody is inside.
	Close struct {
		Shard int
		Epoch shard.Epoch
	}

	// End the handler's context, cause ErrHandoff. Its tenure's context lives on.
	End struct {
		Shard int
		Epoch shard.Epoch
	}

	// Lose: close admission, for good, and end all contexts, cause LostError. Answered by
	// Drained unless a Close for this epoch was.
	Lose struct {
		Shard  int
		Epoch  shard.Epoch
		Reason string
		Failed bool  // the handler's own doing
		Err    error // and what it returned, if that is why
	}

	// Overdue: the handler has overstayed its time to finish: end all its contexts. Forced: it is given up on,
	// and its shard goes on without it.
	Overdue struct {
		Shard  int
		Epoch  shard.Epoch
		Forced bool
	}

	// Finish: the tenure is over and nothing of it runs any more.
	Finish struct {
		Shard int
		Epoch shard.Epoch
		Err   error // of the flush
	}

	// Prepare to take the shard. Answered by Prepared.
	Prepare struct {
		Shard int
		Move  int64
	}

	// Unprepare: that preparation is of no use any more.
	Unprepare struct{ Shard int }

	// Note tells the operator something.
	Note struct {
		Text  string
		Shard int // -1: none
		Err   error
	}

	// Exit: the node is done. Err is nil after a good leave, else an *Abandoned, *Mismatch, *Taken, *Restored or *Unusable.
	Exit struct{ Err error }
)

func (GrantLease) effect() {}
func (Renew) effect()      {}
func (Revoke) effect()     {}
func (Commit) effect()     {}
func (Relist) effect()     {}
func (Progress) effect()   {}
func (MakePlan) effect()   {}
func (Trust) effect()      {}
func (Joined) effect()     {}
func (Start) effect()      {}
func (Open) effect()       {}
func (Close) effect()      {}
func (End) effect()        {}
func (Lose) effect()       {}
func (Overdue) effect()    {}
func (Finish) effect()     {}
func (Prepare) effect()    {}
func (Unprepare) effect()  {}
func (Note) effect()       {}
func (Exit) effect()       {}

// Kind is which of the protocol's transactions a Commit is.
type Kind string

// The transactions.
const (
	Configure Kind = "CONFIG" // the group's first config
	Join      Kind = "JOIN"
	Update    Kind = "UPDATE"
	Grant     Kind = "GRANT"
	Move      Kind = "MOVE"
	Cancel    Kind = "CANCEL"
	Reap      Kind = "REAP"
	Decline   Kind = "DECLINE"
	SetReady  Kind = "READY"
	Transfer  Kind = "TRANSFER"
	Reclaim   Kind = "RECLAIM"
	Release   Kind = "RELEASE"
	Unavoid   Kind = "UNAVOID" // a back-off has ended
	Probe     Kind = "PROBE"   // does the store take writes?
)

// Mismatch: the config in the store is not this program's.
type Mismatch struct{ Field, Want, Got string }

func (e *Mismatch) Error() string {
	return fmt.Sprintf("config %s: want %s, got %s", e.Field, e.Want, e.Got)
}

// Taken: another live member has the id.
type Taken struct{ Other shard.Member }

func (e *Taken) Error() string { return fmt.Sprintf("id %s is taken", e.Other.ID) }

// Restored: the store went back in time, or is another one.
type Restored struct {
	Was, Now int64 // revisions; equal if the cluster id changed
}

func (e *Restored) Error() string { return fmt.Sprintf("revision went from %d to %d", e.Was, e.Now) }

// Abandoned: the node left without an answer to the revoke of its lease, under which shards were still claimed.
type Abandoned struct{ Shards int }

func (e *Abandoned) Error() string { return fmt.Sprintf("%d shards were not handed over", e.Shards) }

// Unusable: the store's state can't be worked with.
type Unusable struct{ Err error }

func (e *Unusable) Error() string { return e.Err.Error() }
func (e *Unusable) Unwrap() error { return e.Err }
