package idem

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Store keeps one record for each operation: OnCAS, or one of package sqlidem. Programs make one and
// pass it to New. Implementations are safe for concurrent use.
//
// A store does three things for the engine: it writes on a condition, it says so when it can't tell
// whether it has written, and it measures time. All durations count from the moment of the write, by
// the store's own clock, so no two processes need to agree on the time. idemtest.Run is the test of
// all that.
type Store interface {
	// Get reads id's record. An absent one is no error: its Rev is 0.
	Get(ctx context.Context, id string) (Record, error)

	// Swap writes p if the record is at revision rev (0: if there is none) and returns its new
	// revision, which the record never had before. Otherwise nothing is written and the error is a
	// *ConflictError. If the reply was lost it wraps cas.ErrUncertain. Swap never sends a write twice.
	Swap(ctx context.Context, id string, rev int64, p Put) (int64, error)

	// Extend lets the attempt end that long from now, if the record is still at rev, and leaves
	// everything else as it is, the revision too. Otherwise the error is a *ConflictError.
	Extend(ctx context.Context, id string, rev int64, attempt time.Duration) error
}

// Record is what a store has for an operation. The zero value is none.
type Record struct {
	Rev  int64  // 0: there is no record
	Head []byte // the engine's, to be kept as it is
	Body []byte // the result; nil if there is none, or once the replay has ended

	// Attempt is how much longer the present attempt may go on; 0 or less if none does. A store that
	// only knows that it has not ended says the longest that it can take.
	Attempt time.Duration

	// Replayable says that the replay has not ended.
	Replayable bool
}

// Put is what a store is to write.
type Put struct {
	Head []byte
	Body []byte // nil: none

	Attempt time.Duration // until the attempt ends; 0: there is none
	Replay  time.Duration // until Body may be dropped; 0 with no Body
	Forget  time.Duration // until the whole record may be; longer than the others
}

// ConflictError: the record is not at the revision that a Swap or Extend was to find. Nothing was
// written.
type ConflictError struct {
	Current Record // what was there
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("idem: conflict: the record is at revision %d", e.Current.Rev)
}

// Outcome is NotApplied.
func (e *ConflictError) Outcome() cas.Outcome { return cas.NotApplied }
