package writer

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
)

// mostFailures in a row are taken for a fault of what is written to, not of the commands.
const mostFailures = 16

// applier is the goroutine that applies a tenure's commands. Its fields are its own until done is closed.
type applier[C, R any] struct {
	tenure *owner.Tenure
	queue  *queue[C, R]
	apply  Apply[C, R]
	most   int // commands in a batch

	batch    []*Cmd[C, R]  // what Apply was given last, to be used again
	running  []*call[C, R] // in Apply, or were when it failed
	rest     []*call[C, R] // taken after those, and not applied
	failures int           // in a row

	done chan struct{}
	err  error // why it could not go on, once done is closed; nil: the queue was closed and is empty
}

// run applies until the queue is closed and empty, or it can't go on.
func (a *applier[C, R]) run() {
	defer close(a.done)
	// Goexit, of a test's FailNow for instance, can't be held up, but it does run what is deferred.
	err := errors.New("it ended its goroutine (runtime.Goexit, or a test's FailNow)")
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
		if err != nil {
			a.fail(err)
		}
	}()
	err = a.applyAll()
}

// fail ends the tenure because of err. It gives the tenure up before anybody is told: a caller that is told and comes back
// finds the gate closed, and waits for the next one. That ends the contexts of the callers too, who must not take it for the
// end of their command.
func (a *applier[C, R]) fail(err error) {
	why := applyError(err)
	a.err = why
	if t := a.tenure; t.Context().Err() != nil {
		a.err = context.Cause(t.Context())
	}
	ended := endedBy(a.err)
	out := a.queue.end(ended)
	a.queue.decide(a.running)
	a.queue.decide(a.rest)
	a.tenure.Fail(why) // also after the tenure's end: it counts what a fence has refused
	_, row := err.(*rowError)
	if cas.OutcomeOf(err) != cas.NotApplied || row && len(a.running) == 1 {
		a.told(applyError(err))
	} else { // not the fault of these commands, as far as one can know: they may go on to the next owner
		a.told(ended)
	}
	for _, c := range append(a.rest, out...) {
		c.tell(ended)
	}
	a.rest = nil
}

func (a *applier[C, R]) applyAll() error {
	var buf []*call[C, R]
	for {
		a.queue.gather(len(buf), a.most, runtime.Gosched, time.Now)
		buf = a.queue.take(buf[:0], a.most)
		if len(buf) == 0 {
			return nil
		}
		if err := a.settle(buf); err != nil {
			return err
		}
		clear(buf) // what was applied is not to be kept
	}
}

// settle applies calls in order, in one batch or, if that fails for certain, in smaller ones. An error ends the tenure; then
// running and rest are those who were not told.
func (a *applier[C, R]) settle(calls []*call[C, R]) error {
	var depth [mostFailures]int
	parts := append(depth[:0], len(calls)) // a stack of lengths: the part on top is the next
	again := false
	for len(parts) > 0 {
		a.running, a.rest = nil, calls
		if err := a.standing(); err != nil {
			return err
		}
		if why := a.queue.over(); why != nil { // Drain has ended
			a.running = calls
			a.told(why)
			return nil
		}
		top := len(parts) - 1
		n := parts[top]
		a.running, a.rest = calls[:n], calls[n:]
		err := a.try(a.running)
		if err == nil {
			a.failures = 0
		} else if !mayRetry(a.tenure, err) {
			return err
		} else if a.failures++; a.failures == mostFailures {
			return &rowError{err}
		}
		switch {
		case err == nil || n == 1 && again:
			a.told(applyError(err))
			calls, parts = calls[n:], parts[:top]
			continue
		case again:
			parts[top] = n - n/2
			parts = append(parts, n/2)
		}
		again = true // the whole once more, and then its halves
		for _, c := range a.running {
			c.again()
		}
	}
	a.rest = nil
	return nil
}

// told ends the calls that were running.
func (a *applier[C, R]) told(err error) {
	for _, c := range a.running {
		c.tell(err)
	}
	a.running = nil
}

// try has the user's function apply calls.
func (a *applier[C, R]) try(calls []*call[C, R]) error {
	batch := a.batch[:0]
	for _, c := range calls {
		batch = append(batch, c.cmd)
	}
	a.batch = nil // it goes if Apply fails: a goroutine of that may still read it
	err := a.apply(a.tenure.Context(), batch)
	if err == nil {
		clear(batch)
		a.batch = batch
	}
	return err
}

// pollTrust is how often an applier looks whether a tenure that is not trusted has been ended.
const pollTrust = 10 * time.Millisecond

// standing waits, with a batch in hand, while the tenure can't be trusted (I3): a process that was stopped finds out here
// by the clock, whether or not its node's loop has run again. It returns why the batch can't be begun, once that is certain.
func (a *applier[C, R]) standing() error {
	for a.tenure.Err() != nil {
		select {
		case <-a.tenure.Context().Done():
			return context.Cause(a.tenure.Context())
		case <-time.After(pollTrust):
		}
	}
	return nil
}
