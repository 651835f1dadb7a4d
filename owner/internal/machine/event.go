package machine

import (
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// Event is what happened. All are values; the machine keeps what they point to.
type Event interface{ event() }

type (
	// Tick: time has passed.
	Tick struct{}

	// Leave: the user wants to stop.
	Leave struct{}

	// Listed: the whole group was read anew, by whoever sends Watched too, so in order with
	// them. The machine owns View from here on.
	Listed struct{ View *layout.View }

	// Watched: one revision's changes, or, without events, progress to its revision.
	Watched struct{ Change cas.Change }

	// LeaseGranted answers GrantLease.
	LeaseGranted struct {
		Sent  time.Duration
		Lease cas.Lease
		Err   error
	}

	// Renewed answers Renew.
	Renewed struct {
		Sent  time.Duration
		Lease cas.Lease // ID is set on error too
		Err   error
	}

	// Revoked answers Revoke.
	Revoked struct {
		Lease cas.LeaseID
		Err   error
	}

	// Committed answers Commit.
	Committed struct {
		ID  uint64
		Rev int64 // of the reply, when applied
		Err error
	}

	// Planned answers MakePlan.
	Planned struct{ Plan shard.Plan }

	// Ready: the handler is ready for requests.
	Ready struct {
		Shard int
		Epoch shard.Epoch
	}

	// Drained: admission is closed and no request is inside any more.
	Drained struct {
		Shard int
		Epoch shard.Epoch
	}

	// Returned: the handler has returned, or panicked, which is an error.
	Returned struct {
		Shard int
		Epoch shard.Epoch
		Err   error
	}

	// Failed: the user says that the tenure can't go on.
	Failed struct {
		Shard int
		Epoch shard.Epoch
		Err   error
	}

	// Prepared answers Prepare.
	Prepared struct {
		Shard int
		Move  int64
		Err   error
	}
)

func (Tick) event()         {}
func (Leave) event()        {}
func (Listed) event()       {}
func (Watched) event()      {}
func (LeaseGranted) event() {}
func (Renewed) event()      {}
func (Revoked) event()      {}
func (Committed) event()    {}
func (Planned) event()      {}
func (Ready) event()        {}
func (Drained) event()      {}
func (Returned) event()     {}
func (Failed) event()       {}
func (Prepared) event()     {}
