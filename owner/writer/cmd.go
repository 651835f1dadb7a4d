package writer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tenure-go/tenure/owner"
)

// Open seals and loads, and returns the Apply of this tenure: a closure over t and the state. It runs once a tenure, before
// requests are let in; ctx is the handler's. An error ends the tenure, and the next tries again.
type Open[C, R any] func(ctx context.Context, t *owner.Tenure) (Apply[C, R], error)

// Apply applies a batch in order, all or nothing, in one transaction, and settles each Cmd by Reply or Reject.
// It runs for one batch at a time. ctx is the tenure's: it ends at loss, and not because a caller has gone.
//
// WHAT IT RETURNS DECIDES WHETHER THE BATCH IS RUN AGAIN. An error whose outcome is cas.NotApplied says of the whole batch that
// nothing of it was applied or ever will be, and the same commands run again. The errors of a fence's Tx say so where it is true:
// return them as they are. Mark an error of your own with NotApplied if you know, for instance because it was found before
// anything was written; never because it seems likely. Don't return a not-applied error of something else
// that failed after the transaction had committed. A plain error counts as uncertain, and ends the tenure.
//
// Run again, it must start from what is stored: state in memory may change only once the transaction has committed.
//
// The batch, and what is in it, is Apply's only until it returns. Don't call Do for the same shard in here: it would wait for itself.
type Apply[C, R any] func(ctx context.Context, batch []*Cmd[C, R]) error

// Cmd is one command in a batch. Only Apply uses it, and only during its call: afterwards Reply and Reject do nothing.
// Goroutines that Apply starts and waits for may use it concurrently. The zero value settles nothing, and does no harm.
type Cmd[C, R any] struct {
	Value C // not to be changed: the batch may be run again

	ctx     context.Context
	mu      sync.Mutex // guards the rest: a goroutine that outlives Apply may come too late
	over    bool
	settled bool
	reply   R
	err     error
}

// Reply is sent once the batch has succeeded. If a Cmd is settled more than once the last time counts, so Apply may run its
// transaction several times.
func (c *Cmd[C, R]) Reply(r R) { c.settle(r, nil) }

// Reject is a business "no": sent like Reply, as a *RejectedError, it fails nobody else. The command must have had
// no effect.
func (c *Cmd[C, R]) Reject(err error) {
	if err == nil {
		err = errNoReason
	}
	var none R
	c.settle(none, &RejectedError{Err: err})
}

var errNoReason = errors.New("writer: Reject was called with no error")

// Context is the caller's, for values and trace links. It may end at any time; that says nothing about the batch.
func (c *Cmd[C, R]) Context() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

func (c *Cmd[C, R]) settle(r R, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.settled, c.reply, c.err = true, r, err
	}
}

// finish ends the Cmd's time. After it reply and err stay as they are.
func (c *Cmd[C, R]) finish() (settled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.settled
}

// call is a caller and its command. Whoever takes it out of the queue tells it, once. That, and not the mutex of the queue,
// is what hands err and cmd over to the caller.
type call[C, R any] struct {
	cmd   *Cmd[C, R] // of the latest try
	first Cmd[C, R]  // of the first, which most often is the only one: no allocation of its own
	err   error      // why there is no reply; else see cmd

	state atomic.Uint32 // pending, parked, told
	told  chan struct{} // with room for one. The caller's until it has parked

	place      place // the queue's, like the links
	prev, next *call[C, R]
}

// The states of a call.
const (
	pending uint32 = iota // its caller has not looked yet
	parked                // its caller waits for told
	told                  // cmd and err are the caller's
)

// again gives the call a new Cmd for another try. Whatever still holds the old one can't settle the new one.
func (c *call[C, R]) again() {
	c.cmd.finish()
	c.cmd = &Cmd[C, R]{Value: c.first.Value, ctx: c.first.ctx}
}

// tell ends the call. A nil err means that the batch was applied.
func (c *call[C, R]) tell(err error) {
	settled := c.cmd.finish()
	if err == nil && !settled {
		err = ErrUnsettled
	}
	c.err = err
	if c.state.Swap(told) == parked {
		c.told <- struct{}{}
	}
}

// result is what the caller gets, after it was told.
func (c *call[C, R]) result() (R, error) {
	err := c.err
	if err == nil {
		err = c.cmd.err
	}
	if err != nil {
		var none R
		return none, err
	}
	return c.cmd.reply, nil
}
