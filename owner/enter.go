package owner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// station is where requests for one shard of this node go in, or wait. A node makes one for each shard that it
// has had to do with.
type station struct {
	tenure  atomic.Pointer[Tenure] // the one that runs, or nil
	claimed atomic.Bool            // the claim is this node's
	waiting atomic.Int32
	change  broadcast
}

// broadcast wakes everybody who waits for the next change. The zero value is invalid; see init.
type broadcast struct{ ch atomic.Pointer[chan struct{}] }

func (b *broadcast) init() {
	ch := make(chan struct{})
	b.ch.Store(&ch)
}

// next is closed at the next change after this call. Take it before you look at what you wait for.
func (b *broadcast) next() <-chan struct{} { return *b.ch.Load() }

// announce is called by one goroutine only.
func (b *broadcast) announce() {
	ch := make(chan struct{})
	close(*b.ch.Swap(&ch))
}

// Do runs fn in key's tenure, if that is here. fn's context carries the tenure and ends when the tenure
// is lost. While the shard is being handed over Do waits, at most WaitTimeout.
//
// If fn did not run the error is a *NotOwnerError, wraps ErrBusy, or is the context's; its outcome is
// cas.NotApplied. Otherwise it is fn's; if that is itself such a refusal, of a call nested in fn, it comes wrapped, with
// an uncertain outcome, since fn may have done other things before.
func (n *Node) Do(ctx context.Context, key string, fn func(context.Context, *Tenure) error) error {
	c, err := n.enter(ctx, n.group.Of(key))
	if err != nil {
		return err
	}
	defer c.exit()
	err = fn(c, c.a.tenure)
	if refused(err) {
		return &nestedError{err}
	}
	return err
}

// refused: err is what Do and Enter say of a call that was not let in.
func refused(err error) bool {
	if err == nil {
		return false
	}
	_, notOwner := errors.AsType[*NotOwnerError](err)
	_, busy := errors.AsType[*refusedError](err)
	return notOwner || busy
}

// nestedError: a call inside fn was refused, but fn ran.
type nestedError struct{ error }

func (e *nestedError) Error() string        { return "owner: inside an admitted call: " + e.error.Error() }
func (e *nestedError) Unwrap() error        { return e.error }
func (e *nestedError) Outcome() cas.Outcome { return cas.Uncertain }

// Enter is Do for middleware. The context carries the tenure (From) and ends with it; exit must be called,
// and more than once does no harm. Calls made with that context for keys of the same shard are let in as
// long as exit was not called, even while the shard drains.
func (n *Node) Enter(ctx context.Context, key string) (_ context.Context, exit func(), _ error) {
	return n.EnterShard(ctx, n.group.Of(key))
}

// EnterShard is Enter for work that concerns a shard as a whole: a query over all of its keys, a timer.
func (n *Node) EnterShard(ctx context.Context, shard int) (_ context.Context, exit func(), _ error) {
	if shard < 0 || shard >= n.group.Shards {
		return ctx, noExit, &refusal{fmt.Sprintf("owner: shard %d: group %s has shards 0 to %d", shard, n.group.Name, n.group.Shards-1)}
	}
	c, err := n.enter(ctx, shard)
	if err != nil {
		return ctx, noExit, err
	}
	return c, c.exit, nil
}

func (n *Node) enter(ctx context.Context, s int) (*call, error) {
	if outer := within(ctx, n, s); outer != nil {
		if outer.nest() {
			return &call{outer: ctx, a: outer}, nil
		}
		if outer.handler || outer.refs.Load() > 0 {
			// It would wait for the end of a tenure that waits for it.
			return nil, &refusedError{shard: s, why: "the tenure that this call is made in is ending", cause: ErrBusy}
		}
	}
	if st := n.stations[s].Load(); st != nil {
		if t := st.tenure.Load(); t != nil && t.admit() {
			return newCall(ctx, t, false), nil
		}
	}
	t, err := n.await(ctx, s)
	if err != nil {
		return nil, err
	}
	return newCall(ctx, t, false), nil
}

func noExit() {}

// await waits until s can be entered, is known to be another's, or patience ends.
func (n *Node) await(ctx context.Context, s int) (*Tenure, error) {
	atLeast, _ := ctx.Value(atLeastKey{}).(shard.Epoch)
	var timeout <-chan time.Time // begins with the first wait
	for {
		st := n.station(s)
		change, moved := st.change.next(), n.moved.next()
		if t := st.tenure.Load(); t != nil && t.admit() {
			return t, nil
		}
		behind := atLeast.Revision() > n.board.Rev() && atLeast.Lineage() >= n.board.Lineage()
		if !st.claimed.Load() && !behind {
			return nil, n.notOwner(s)
		}
		select {
		case <-n.over:
			return nil, n.notOwner(s)
		default:
		}
		if timeout == nil {
			if st.waiting.Add(1) > int32(n.config.MaxWaiting) {
				st.waiting.Add(-1)
				n.counters.busy.Add(1)
				return nil, &refusedError{shard: s, why: fmt.Sprintf("%d requests wait already", n.config.MaxWaiting), cause: ErrBusy}
			}
			began := n.clock.Now()
			n.counters.waits.Add(1)
			defer func() {
				st.waiting.Add(-1)
				n.counters.waited.Add(int64(n.clock.Now() - began))
			}()
			timer := time.NewTimer(n.config.WaitTimeout)
			defer timer.Stop()
			timeout = timer.C
		}
		if !behind {
			moved = nil
		}
		select {
		case <-change:
		case <-moved:
		case <-n.over:
		case <-ctx.Done():
			return nil, &refusedError{shard: s, why: "the caller gave up waiting", cause: context.Cause(ctx)}
		case <-timeout:
			n.counters.busy.Add(1)
			return nil, &refusedError{shard: s, why: fmt.Sprintf("not served here within %v", n.config.WaitTimeout), cause: ErrBusy}
		}
	}
}

// notOwner says who owns s as far as this node has seen.
func (n *Node) notOwner(s int) *NotOwnerError {
	err := &NotOwnerError{Shard: s}
	if o := n.board.Owner(s); o != nil && o.Member.ID != n.config.ID {
		err.Owner, err.Epoch = *o.Member, o.Epoch
	}
	return err
}

type atLeastKey struct{}

// AtLeast returns a context under which Enter and Do wait, at most WaitTimeout, until this node has
// seen the store at the revision of e, before they say that another owns the shard. For routers: a peer
// that had seen it sent the request here. An epoch of a lineage before this node's is not waited for: its revision may
// never come.
func AtLeast(ctx context.Context, e shard.Epoch) context.Context {
	return context.WithValue(ctx, atLeastKey{}, e)
}

// refusedError: not admitted, so not applied.
type refusedError struct {
	shard int
	why   string
	cause error
}

func (e *refusedError) Error() string {
	if e.cause == ErrBusy {
		return fmt.Sprintf("owner: shard %d is busy: %s", e.shard, e.why)
	}
	return fmt.Sprintf("owner: shard %d: %s: %v", e.shard, e.why, e.cause)
}
func (e *refusedError) Unwrap() error        { return e.cause }
func (e *refusedError) Outcome() cas.Outcome { return cas.NotApplied }
