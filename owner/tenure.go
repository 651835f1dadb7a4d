package owner

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/internal/machine"
	"github.com/tenure-go/tenure/shard"
)

// Tenure is one uninterrupted period in which this node owns a shard, under one epoch. Safe for
// concurrent use, and readable after loss. There is no way to make one up: a Handler is given it, and
// From finds it in a request's context.
type Tenure struct {
	node  *Node
	token shard.Token
	gate  gate

	ctx      context.Context // ends at loss, at DrainTimeout, and when the tenure is over
	cancel   context.CancelCauseFunc
	work     context.Context // the handler's: ends when the hand-off does, too
	stopWork context.CancelCauseFunc
	draining chan struct{}
	self     *admission // the handler's
	result   error      // the handler's, written before it releases self
	returned chan struct{}
	lost     atomic.Pointer[LostError]
	latest   atomic.Pointer[Event] // never nil once others can see the tenure
	since    time.Duration         // of it; the loop's own
	born     time.Duration         // when the node was told to run the handler
	fenced   atomic.Bool           // a fence has refused it
}

func newTenure(n *Node, token shard.Token) *Tenure {
	t := &Tenure{node: n, token: token, born: n.clock.Now(), draining: make(chan struct{}), returned: make(chan struct{})}
	self := newCall(context.Background(), t, true)
	t.self = self.a
	ctx, cancel := context.WithCancelCause(inside{self.outer, self})
	t.ctx, t.cancel = ctx, cancel
	t.work, t.stopWork = context.WithCancelCause(ctx)
	return t
}

// Token goes with every side effect of this tenure.
func (t *Tenure) Token() shard.Token { return t.token }

// Owns reports whether key is of this tenure's shard. Its token guards no other key. Ask with what decides the shard: the
// tenant, say, where tenants are the keys.
func (t *Tenure) Owns(key string) bool { return t.node.group.Of(key) == t.token.Shard }

// Guard holds while this tenure's claim stands: a condition for commits on the same store, which
// makes them impossible for an owner that has been replaced.
func (t *Tenure) Guard() cas.Cond {
	return cas.AtRev(t.node.keys.Claim(t.token.Shard), t.token.Epoch.Revision())
}

// Ready admits requests. Idempotent; without effect once the tenure is ending.
func (t *Tenure) Ready() {
	t.node.mail.post(machine.Ready{Shard: t.token.Shard, Epoch: t.token.Epoch})
}

// Fail gives the tenure up because of err: nobody is let in any more, all contexts end with a *LostError, and once the handler
// has returned the shard starts again under a higher epoch, here or elsewhere, with a growing back-off. Call it when the state
// in memory can't be trusted any more: a write whose outcome is uncertain, an error of the fence. A nil err is one that says so.
// Idempotent. Once the tenure is ending it only ends the contexts.
func (t *Tenure) Fail(err error) {
	if err == nil {
		err = errors.New("owner: Fail was called with no error")
	}
	t.hear(err)
	// First of all: what follows has the gate report that nobody is inside, and the handler return. The loop must
	// take neither for something that happened by itself.
	t.node.mail.post(machine.Failed{Shard: t.token.Shard, Epoch: t.token.Epoch, Err: err})
	t.shut()
	t.lose(machine.GaveUp + err.Error())
}

// Err is a *LostError after loss, and ErrHandoff once the tenure has ended in good order. nil promises nothing about
// the next write: only a fence does.
func (t *Tenure) Err() error {
	if lost := t.lost.Load(); lost != nil {
		return lost
	}
	if t.ctx.Err() != nil {
		return ErrHandoff
	}
	if !t.trusted() {
		return &LostError{Token: t.token, Reason: "the lease could not be renewed in time"}
	}
	return nil
}

// Context outlives the handler's by the flush: it ends at loss, at DrainTimeout, and when the handler
// has returned. Work that a hand-off should wait for runs under it.
func (t *Tenure) Context() context.Context { return t.ctx }

// Draining closes when a hand-off begins, and at loss. Streams and long polls should end then.
func (t *Tenure) Draining() <-chan struct{} { return t.draining }

// admit counts a request in if the tenure is open and trusted (I3). The clock is read at each
// entry, so no goroutine has to run for a gate to refuse.
func (t *Tenure) admit() bool { return t.trusted() && t.gate.enter() }

func (t *Tenure) trusted() bool { return t.node.clock.Now() < t.node.trustUntil() }

// leave counts a request out.
func (t *Tenure) leave() {
	if t.gate.exit() {
		t.reportDrained()
	}
}

// shut closes admission for good.
func (t *Tenure) shut() {
	first, empty := t.gate.close()
	if first {
		close(t.draining)
	}
	if empty {
		t.reportDrained()
	}
}

func (t *Tenure) reportDrained() {
	t.node.mail.post(machine.Drained{Shard: t.token.Shard, Epoch: t.token.Epoch})
}

// lose ends all of the tenure's contexts.
func (t *Tenure) lose(reason string) {
	lost := &LostError{Token: t.token, Reason: reason}
	t.lost.CompareAndSwap(nil, lost)
	t.cancel(t.lost.Load())
}

// admission is one request inside a tenure, or the handler itself.
type admission struct {
	tenure  *Tenure
	handler bool
	refs    atomic.Int32 // the request or the handler, and the calls nested in it
}

// nest lets a call in that was made inside this admission, also while the gate is closed: else the hand-off would
// wait for the request, and the request for the hand-off. Trust it needs as any other (I3).
func (a *admission) nest() bool {
	t := a.tenure
	if !t.trusted() || t.lost.Load() != nil || a.handler && t.work.Err() != nil {
		return false
	}
	for {
		n := a.refs.Load()
		if n == 0 {
			return false // the outer call has exited; its context has leaked
		}
		if a.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends one use of the admission. With the last one the request has left, or the handler has returned (I5).
func (a *admission) release() {
	switch {
	case a.refs.Add(-1) > 0:
	case a.handler:
		t := a.tenure
		t.node.mail.post(machine.Returned{Shard: t.token.Shard, Epoch: t.token.Epoch, Err: t.result})
	default:
		a.tenure.leave()
	}
}

// From returns ctx's tenure, or ErrNoTenure: ctx comes from no Do, Enter or Handler, in a server most
// often because the route is not wrapped.
func From(ctx context.Context) (*Tenure, error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c.a.tenure, nil
	}
	return nil, ErrNoTenure
}

// TokenFrom is From for wiring: the zero Token if there is none.
func TokenFrom(ctx context.Context) shard.Token {
	t, err := From(ctx)
	if err != nil {
		return shard.Token{}
	}
	return t.Token()
}
