package owner

import (
	"errors"
	"sync/atomic"
	"time"
)

// Counters count what has happened in a node since New. None of them ever goes down.
type Counters struct {
	Waits  int64         // requests that found the gate of a shard claimed here closed, or this node's view behind, and waited
	Waited time.Duration // all those waits together, those that go on not counted yet
	Busy   int64         // requests refused as ErrBusy: too many waited, or one for too long

	Renewals        int64 // of the lease, that succeeded
	RenewalFailures int64 // that failed, or had no answer in time

	Granted   int64         // tenures that began
	HandedOff int64         // that ended in good order: with Forced, all hand-offs
	Forced    int64         // handlers that were given up on, in a hand-off or after a loss
	Lost      int64         // tenures whose trust, claim or membership went
	Failed    int64         // tenures whose handler returned early, failed or panicked, or that were given up
	Held      time.Duration // all tenures that have ended together, up to their end

	// Fenced counts tenures that heard from a fence that a newer owner had sealed: their stale writes were refused, and
	// without the fence would have been done. It counts what Tenure.Fail and the handler's error tell: any error in
	// whose chain is one that says so of itself, by a method Fenced() bool, as *fence.FencedError does.
	Fenced int64
}

// counters are Counters as they grow.
type counters struct {
	waits, waited, busy, renewals, renewalFailures           atomic.Int64
	granted, handedOff, forced, lost, failed, held, fencedBy atomic.Int64
}

// read is not of one instant: people look at it, and no two of the figures are compared.
func (c *counters) read() Counters {
	return Counters{
		Waits:           c.waits.Load(),
		Waited:          time.Duration(c.waited.Load()),
		Busy:            c.busy.Load(),
		Renewals:        c.renewals.Load(),
		RenewalFailures: c.renewalFailures.Load(),
		Granted:         c.granted.Load(),
		HandedOff:       c.handedOff.Load(),
		Forced:          c.forced.Load(),
		Lost:            c.lost.Load(),
		Failed:          c.failed.Load(),
		Held:            time.Duration(c.held.Load()),
		Fenced:          c.fencedBy.Load(),
	}
}

// turn counts a tenure's turn from one state to another.
func (c *counters) turn(from State, to Event) {
	switch to.State {
	case Granted:
		c.granted.Add(1)
	case HandedOff:
		c.handedOff.Add(1)
	case Forced:
		c.forced.Add(1)
	case Lost:
		c.lost.Add(1)
	case Failed:
		c.failed.Add(1)
	}
	if to.State.over() && !from.over() {
		c.held.Add(int64(to.Age))
	}
}

// over: one of the ends. A tenure may turn from one end to another, for a lost one's handler can overstay.
func (s State) over() bool {
	switch s {
	case HandedOff, Forced, Lost, Failed:
		return true
	}
	return false
}

// renewed counts a renewal's outcome.
func (c *counters) renewed(err error) {
	if err != nil {
		c.renewalFailures.Add(1)
	} else {
		c.renewals.Add(1)
	}
}

// fencedError is the refusal of a stale write: fence.FencedError, whose package imports this one.
type fencedError interface {
	error
	Fenced() bool
}

// hear counts a tenure that a fence has refused, once.
func (t *Tenure) hear(err error) {
	if e, ok := errors.AsType[fencedError](err); ok && e.Fenced() && !t.fenced.Swap(true) {
		t.node.counters.fencedBy.Add(1)
	}
}
