package idem

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// Status is where an operation stands. The zero value is Absent.
type Status int

const (
	Absent      Status = iota // never begun, or forgotten: a try would be the first
	Running                   // a try is in progress, or was until it crashed a moment ago
	Interrupted               // a try has ended without saying how; the next does as Request.Interrupted says
	GivenUp                   // a try has failed and said that nothing was done; the next is like a first one
	Done                      // with a result, or one that was not kept
	Failed                    // for good, in an error that Final had marked
	Expired                   // done or failed, longer than Config.Keep ago
)

func (s Status) String() string {
	names := [...]string{"absent", "running", "interrupted", "given up", "done", "failed", "expired"}
	if s < 0 || int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}

// Found is what Lookup finds. The zero value is of an operation that is Absent.
type Found[R any] struct {
	Status Status
	Result R // if it is Done, and Err is nil

	// Err is what Do would return of one that has finished, if not a result: *FailedError, *ExpiredError, *TooLargeError, or that
	// what was kept can't be read as an R.
	Err error

	Attempt time.Duration // if it is Running: until the attempt ends at the latest, unless it is extended
	Tries   int           // how many times it was begun
	Steps   []string      // the names of those that are recorded, sorted; none once it has finished
	Token   shard.Token   // the latest owner's, if there was any
}

// Lookup says where an operation stands, and runs and changes nothing. A key that was used for something else is a
// *MismatchError, here too: q.Fingerprint has to be the operation's. With a Token, a try under an earlier epoch counts as
// Interrupted, as it does for Do. Wait and Interrupted play no part.
//
// It is for showing, and for finding out what became of a try whose reply was lost. Don't decide by it whether to run
// something, for that may have changed by the time it returns: that is Do.
//
// The Outcome of an error is NotApplied.
func Lookup[R any](ctx context.Context, e *Engine, q Request) (Found[R], error) {
	var f Found[R]
	if err := q.check(); err != nil {
		return f, err
	}
	there, err := e.store.Get(ctx, q.id())
	if err != nil {
		return f, &opError{"looking an operation up", err, cas.NotApplied}
	}
	if there.Rev == 0 {
		return f, nil
	}
	h, err := decodeHead(there, q)
	if err == nil {
		err = h.compare(q)
	}
	if err != nil {
		return f, err
	}
	f.Tries, f.Steps = h.Tries, slices.Sorted(maps.Keys(h.Steps))
	if h.Token != nil {
		f.Token = *h.Token
	}
	switch {
	case h.State == done || h.State == failed:
		var body []byte
		if body, f.Err = h.replay(there); f.Err == nil {
			f.Result, f.Err = decode[R](body, "the operation")
		}
		f.Status = h.ended(f.Err)
	case h.State == open && !h.Interrupted:
		f.Status = GivenUp
	case h.State == running && there.Attempt > 0 && h.rank(q.Token) <= 0:
		f.Status, f.Attempt = Running, there.Attempt
	default:
		f.Status = Interrupted
	}
	return f, nil
}

// ended is the status of a finished operation whose replay came to err.
func (h *head) ended(err error) Status {
	if _, late := err.(*ExpiredError); late {
		return Expired
	}
	if h.State == failed {
		return Failed
	}
	return Done
}
