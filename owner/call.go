package owner

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// call is one call of Enter that was let in, and its context: that ends with the caller's, with the tenure and with exit. A
// handler is inside its tenure by a call as well, which has no context of its own.
//
// Most calls are over before their context ends, and many never look at it. So what watches for its end, which takes more time
// than the gate, is made when it is first asked for.
type call struct {
	outer context.Context // the caller's
	a     *admission      // own, or the one that this call is nested in
	own   admission

	out atomic.Bool // exit was called

	// mu guards the rest. It is held over calls of outer, which was there before this call and can't wait for it.
	mu     sync.Mutex
	live   context.Context // nil until it is asked for
	unlink func() bool
	cancel context.CancelCauseFunc
}

// newCall is a call by an admission of its own, which t's gate has counted, or which is t's handler.
func newCall(ctx context.Context, t *Tenure, handler bool) *call {
	c := &call{outer: ctx}
	c.own.tenure, c.own.handler = t, handler
	c.own.refs.Store(1)
	c.a = &c.own
	return c
}

// exit is the way out, and does nothing the second time.
func (c *call) exit() {
	if c.out.Swap(true) {
		return
	}
	c.mu.Lock()
	unlink, cancel := c.unlink, c.cancel
	c.mu.Unlock()
	if cancel != nil {
		unlink()
		cancel(context.Canceled)
	}
	c.a.release()
}

// context is the one that ends.
func (c *call) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		return c.live
	}
	t := c.a.tenure
	ctx, cancel := context.WithCancelCause(inside{c.outer, c})
	c.live, c.cancel = ctx, cancel
	c.unlink = context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	switch {
	case c.out.Load():
		c.unlink()
		cancel(context.Canceled)
	case t.ctx.Err() != nil:
		cancel(context.Cause(t.ctx)) // now: AfterFunc does it in a goroutine
	}
	return ctx
}

// Deadline is context.Context's.
func (c *call) Deadline() (time.Time, bool) { return c.outer.Deadline() }

// Done is context.Context's.
func (c *call) Done() <-chan struct{} { return c.context().Done() }

// Err is context.Context's.
func (c *call) Err() error { return c.context().Err() }

// Value is context.Context's. All keys but one are for the context that ends: context.Cause, and whoever derives a
// context, find in this way what ends it.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.context().Value(key)
}

// callKey finds the innermost call in a context.
type callKey struct{}

// inside is the context outside of a call, with the call in it.
type inside struct {
	context.Context
	c *call
}

// Value is context.Context's.
func (i inside) Value(key any) any {
	if key == (callKey{}) {
		return i.c
	}
	return i.Context.Value(key)
}

// within finds the admission to shard s of n that ctx is inside of, however many others lie between; nil if
// there is none.
func within(ctx context.Context, n *Node, s int) *admission {
	for {
		c, ok := ctx.Value(callKey{}).(*call)
		if !ok {
			return nil
		}
		if t := c.a.tenure; t.node == n && t.token.Shard == s {
			return c.a
		}
		ctx = c.outer
	}
}
