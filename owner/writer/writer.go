package writer

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
)

// Writer is safe for concurrent use. Make it with New; one serves all shards of a node, each with a queue of its own.
type Writer[C, R any] struct {
	open    Open[C, R]
	config  Config
	fault   error
	queues  sync.Map  // *queue by *owner.Tenure: what Serve runs
	signals sync.Pool // of call.told, each empty and nobody's
}

// New makes a Writer whose Serve is the handler of a node. A fault of its arguments is what Serve and Do return, with
// everything that is wrong: nothing is served then.
func New[C, R any](open Open[C, R], c Config) *Writer[C, R] {
	c, err := c.withDefaults()
	if open == nil {
		err = errors.Join(refused("New: open is nil"), err)
	}
	return &Writer[C, R]{open: open, config: c, fault: err}
}

// Serve is the owner.Handler: it opens the shard, is ready, and applies what Do queues until the tenure ends. At a hand-off
// it drains the queue.
func (w *Writer[C, R]) Serve(ctx context.Context, t *owner.Tenure) error {
	if w.fault != nil {
		return w.fault
	}
	apply, err := w.open(ctx, t)
	if err != nil {
		return err
	}
	if apply == nil {
		return refused("Open of shard %d returned no Apply and no error", t.Token().Shard)
	}
	q := newQueue[C, R](w.config.Queue)
	w.queues.Store(t, q)
	defer w.queues.Delete(t)
	a := &applier[C, R]{tenure: t, queue: q, apply: apply, most: w.config.MaxBatch, done: make(chan struct{})}
	go a.run()
	t.Ready()
	select {
	case <-a.done: // it has given the tenure up
		return a.err
	case <-t.Draining():
	}
	drained := time.NewTimer(w.config.Drain) // from here, as the node counts DrainTimeout
	defer drained.Stop()
	select { // requests that are inside may go on queueing
	case <-a.done:
		return a.err
	case <-ctx.Done():
	}
	w.drain(ctx, t, q, a.done, drained.C)
	<-a.done
	return a.err
}

// drain ends the queue: at a hand-off once the applier is done with it, or Config.Drain is over; at loss at once.
func (w *Writer[C, R]) drain(ctx context.Context, t *owner.Tenure, q *queue[C, R], done <-chan struct{}, overdue <-chan time.Time) {
	why := endedBy(context.Cause(ctx))
	q.close(why)
	select {
	case <-done:
	case <-overdue:
	case <-t.Context().Done():
		why = endedBy(context.Cause(t.Context()))
	}
	for _, c := range q.end(why) {
		c.tell(why)
	}
}

// Do queues v in t's shard and returns its reply, once the batch that it was in has been applied. t is the tenure that the
// caller runs in (owner.From, or the handler's argument), and its commands are applied in the order in which they came.
//
// If ctx ends while v is queued it is withdrawn (cas.NotApplied); once in a batch Do returns with an outcome of
// cas.Uncertain, and the batch goes on. See the package's documentation for the other errors.
func (w *Writer[C, R]) Do(ctx context.Context, t *owner.Tenure, v C) (R, error) {
	var none R
	q, err := w.queue(t)
	if err != nil {
		return none, err
	}
	if ctx.Err() != nil {
		return none, withdrawn(ctx)
	}
	c := new(call[C, R])
	c.first.Value, c.first.ctx = v, ctx
	c.cmd = &c.first
	at, err := q.push(c)
	if err != nil {
		return none, err
	}
	runtime.Gosched() // to the applier: in memory it is done when this goroutine's turn comes again
	if c.state.Load() != told {
		if err := w.await(ctx, q, c, at); err != nil {
			return none, err
		}
	}
	return c.result()
}

// await waits until c is told. An error says that the caller is not to wait any longer.
func (w *Writer[C, R]) await(ctx context.Context, q *queue[C, R], c *call[C, R], at place) error {
	c.told = w.signal()
	if !c.state.CompareAndSwap(pending, parked) {
		w.signals.Put(c.told)
		return nil
	}
	if at == waiting && w.config.Wait != 0 {
		if err := w.awaitRoom(ctx, q, c); err != nil {
			return err
		}
	}
	if done := ctx.Done(); done == nil {
		<-c.told
	} else {
		select {
		case <-c.told:
		case <-done:
			if err := w.giveUp(ctx, q, c); err != nil {
				return err
			}
		}
	}
	w.signals.Put(c.told)
	return nil
}

// queue is t's, or why there is none.
func (w *Writer[C, R]) queue(t *owner.Tenure) (*queue[C, R], error) {
	if found, ok := w.queues.Load(t); ok {
		return found.(*queue[C, R]), nil
	}
	switch {
	case w.fault != nil:
		return nil, w.fault
	case t == nil:
		return nil, refused("Do: the tenure is nil: take it from owner.From(ctx), or from the handler")
	}
	if err := t.Err(); err != nil {
		return nil, endedBy(err)
	}
	select {
	case <-t.Draining():
		return nil, ErrEnded
	default:
		return nil, refused("Do: shard %d is not served by this Writer: is its Serve the node's handler, and ready?", t.Token().Shard)
	}
}

// signal returns a channel with room for one.
func (w *Writer[C, R]) signal() chan struct{} {
	if ch, ok := w.signals.Get().(chan struct{}); ok {
		return ch
	}
	return make(chan struct{}, 1)
}

// awaitRoom waits at most Config.Wait for c to get from waiting to queued. Nobody says when it does, so it looks when the
// time is over. nil: it got there, or its caller was told, or gave up, which Do sees to.
func (w *Writer[C, R]) awaitRoom(ctx context.Context, q *queue[C, R], c *call[C, R]) error {
	if w.config.Wait > 0 {
		timer := time.NewTimer(w.config.Wait)
		defer timer.Stop()
		select {
		case <-c.told:
			c.told <- struct{}{} // for Do to find
			return nil
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
	if q.withdrawWaiting(c) {
		w.signals.Put(c.told)
		return ErrFull
	}
	return nil
}

// giveUp ends a call whose caller's context has ended. nil: it was told in the same moment, and that is what counts.
func (w *Writer[C, R]) giveUp(ctx context.Context, q *queue[C, R], c *call[C, R]) error {
	switch q.withdraw(c) {
	case waiting:
		w.signals.Put(c.told)
		return &causedError{ErrFull, context.Cause(ctx)}
	case queued:
		w.signals.Put(c.told)
		return withdrawn(ctx)
	case outside:
		<-c.told // on its way
		return nil
	}
	select {
	case <-c.told:
		return nil
	default: // its channel goes with it
		return &outcomeError{"writer: the caller gave up while its command was being applied: ", context.Cause(ctx), cas.Uncertain}
	}
}

func withdrawn(ctx context.Context) error {
	return &outcomeError{"writer: withdrawn, as the caller gave up: ", context.Cause(ctx), cas.NotApplied}
}
