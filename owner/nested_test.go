package owner_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
)

// TestI3_NestedCallNeedsTrust: a call inside an admitted one is let in past a closed gate, but not past the end of trust.
func TestI3_NestedCallNeedsTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 2, accounts, serve, owner.Config{WaitTimeout: time.Second})
		at := c.Owner(key)
		err := c.Nodes[at].Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
			c.Lose(key)
			<-ctx.Done()
			return c.Nodes[at].Do(context.WithoutCancel(ctx), key, func(context.Context, *owner.Tenure) error {
				t.Error("ran after loss")
				return nil
			})
		})
		if !errors.Is(err, owner.ErrBusy) {
			t.Errorf("the nested call: got %v, want ErrBusy", err)
		}
		if got := cas.OutcomeOf(err); got != cas.Uncertain {
			t.Errorf("outcome of the outer call: got %v, want uncertain: it ran", got)
		}
		c.Cut(at, false)
		c.Settle()
	})
}

// TestI5_HandlersCallsAreAwaited: what a handler does through Do is inside the tenure, also when the handler itself has
// returned.
func TestI5_HandlersCallsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cl *ownertest.Cluster
		var inside atomic.Int32
		var from atomic.Int32
		h := func(ctx context.Context, tn *owner.Tenure) error {
			if inside.Load() != 0 && tn.Owns(key) {
				t.Error("the next handler started while a call of the last one's was inside")
			}
			tn.Ready()
			<-tn.Draining()
			if n := from.Load(); tn.Owns(key) && n >= 0 && ctx.Err() == nil {
				entered := make(chan struct{})
				go func() {
					err := cl.Nodes[n].Do(ctx, key, func(context.Context, *owner.Tenure) error {
						inside.Store(1)
						close(entered)
						time.Sleep(3 * time.Second)
						inside.Store(0)
						return nil
					})
					if err != nil {
						t.Errorf("a call of the handler's own: %v", err)
						close(entered)
					}
				}()
				<-entered
			}
			<-ctx.Done()
			return nil
		}
		from.Store(-1)
		cl = ownertest.Start(t, 2, accounts, h, owner.Config{})
		at := cl.Owner(key)
		from.Store(int32(at))
		var request sync.WaitGroup
		request.Go(func() { // keeps the gate from being empty at once, so that the handler gets to its call
			_ = cl.Nodes[at].Do(t.Context(), key, func(_ context.Context, tn *owner.Tenure) error {
				<-tn.Draining()
				time.Sleep(time.Second)
				return nil
			})
		})
		synctest.Wait()
		start := time.Now()
		cl.Move(key, 1-at)
		from.Store(-1)
		request.Wait()
		if took := time.Since(start); took < 3*time.Second {
			t.Errorf("moved after %v, want it to wait for the 3s that the handler's call took", took)
		}
	})
}

// TestNestedThroughAnotherShard: alice's call calls bob's, whose call calls alice's: it must not wait for the end of a
// hand-off that waits for it.
func TestNestedThroughAnotherShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 2, accounts, serve, owner.Config{})
		at := c.Owner(key)
		const other = "bob"
		c.Move(other, at)
		at = c.Owner(key)
		if c.Owner(other) != at || accounts.Of(other) == accounts.Of(key) {
			t.Fatal("the two keys must be two shards of one node")
		}
		n := c.Nodes[at]
		inside := make(chan struct{})
		done := make(chan error)
		go func() {
			done <- n.Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
				close(inside)
				<-tn.Draining()
				return n.Do(ctx, other, func(ctx context.Context, _ *owner.Tenure) error {
					start := time.Now()
					err := n.Do(ctx, key, func(context.Context, *owner.Tenure) error { return nil })
					if took := time.Since(start); took > 0 {
						t.Errorf("the innermost call waited %v", took)
					}
					return err
				})
			})
		}()
		<-inside
		c.Move(key, 1-at)
		if err := <-done; err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

// TestHandlerEndsItsGoroutine: runtime.Goexit, which a test's FailNow calls, ends the tenure like a panic.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once atomic.Bool
		failed := make(chan owner.Event, 10)
		h := func(ctx context.Context, tn *owner.Tenure) error {
			tn.Ready()
			if tn.Owns(key) && once.CompareAndSwap(true, false) {
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		}
		config := owner.Config{}
		config.Hooks.Tenure = func(ev owner.Event) {
			if ev.State == owner.Failed {
				failed <- ev
			}
		}
		c := ownertest.Start(t, 2, accounts, h, config)
		once.Store(true)
		c.Move(key, 1-c.Owner(key))
		c.Settle()
		if ev := <-failed; ev.Err == nil || ev.Token.Shard != accounts.Of(key) {
			t.Errorf("reported: got %+v, want the shard's failure", ev)
		}
	})
}

// TestRunDoesNotWaitForEver: a Prepare and a handler that ignore their contexts are named and left behind.
func TestRunDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		preparing := make(chan struct{}, 1)
		config := owner.Config{
			PrepareTimeout: time.Minute,
			Prepare: func(context.Context, int) (owner.Handler, error) {
				select {
				case preparing <- struct{}{}:
				default:
				}
				<-stuck
				return nil, errors.New("too late")
			},
		}
		c := ownertest.Start(t, 2, accounts, serve, config)
		at := c.Owner(key)
		if err := owner.NewAdmin(c.Store, accounts).Pin(t.Context(), accounts.Of(key), []string{"node-0", "node-1"}[1-at]); err != nil {
			t.Fatal(err)
		}
		<-preparing
		start := time.Now()
		c.Leave(1 - at)
		if took := time.Since(start); took > 25*time.Second {
			t.Errorf("leaving took %v", took)
		}
		close(stuck)
	})
}

// TestReportedStates: each end of a tenure is reported as what it was.
func TestReportedStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var early atomic.Bool
		ends := make(chan owner.State, 100)
		config := owner.Config{}
		config.Hooks.Tenure = func(ev owner.Event) {
			switch ev.State {
			case owner.Failed, owner.Lost, owner.HandedOff, owner.Forced:
				if ev.Token.Shard == accounts.Of(key) {
					ends <- ev.State
				}
			}
		}
		h := func(ctx context.Context, tn *owner.Tenure) error {
			tn.Ready()
			if tn.Owns(key) && early.Load() {
				return nil
			}
			<-ctx.Done()
			return nil
		}
		c := ownertest.Start(t, 2, accounts, h, config)
		at := c.Owner(key)
		c.Move(key, 1-at)
		if got := <-ends; got != owner.HandedOff {
			t.Errorf("after a move: got %s, want %s", got, owner.HandedOff)
		}
		c.Lose(key)
		if got := <-ends; got != owner.Lost {
			t.Errorf("after loss: got %s, want %s", got, owner.Lost)
		}
		early.Store(true)
		if err := owner.NewAdmin(c.Store, accounts).RaiseLineage(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := <-ends; got != owner.HandedOff {
			t.Errorf("after the lineage was raised: got %s, want %s", got, owner.HandedOff)
		}
		if got := <-ends; got != owner.Failed {
			t.Errorf("after an early return: got %s, want %s", got, owner.Failed)
		}
		early.Store(false)
		c.Cut(1-at, false)
		c.Settle()
	})
}

// TestFail: a tenure that is given up admits nobody, ends its contexts, and the next one has a higher epoch.
func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 10)
		config := owner.Config{}
		config.Hooks.Tenure = func(ev owner.Event) {
			if ev.State == owner.Failed {
				failed <- ev.Err
			}
		}
		c := ownertest.Start(t, 2, accounts, serve, config)
		at, old := c.Owner(key), c.Tenure(key)
		boom := errors.New("the state in memory can't be trusted")
		err := c.Nodes[at].Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
			tn.Fail(boom)
			tn.Fail(nil)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if _, ok := errors.AsType[*owner.LostError](err); !ok {
			t.Errorf("cause of the request's context: got %v, want a LostError", err)
		}
		if got := <-failed; got != boom {
			t.Errorf("reported: got %v, want %v", got, boom)
		}
		err = c.Nodes[at].Do(t.Context(), key, func(_ context.Context, tn *owner.Tenure) error {
			if tn.Token().Epoch <= old.Token().Epoch {
				t.Errorf("epoch after Fail: got %v, want above %v", tn.Token().Epoch, old.Token().Epoch)
			}
			return nil
		})
		if err != nil {
			t.Errorf("a request meanwhile: got %v, want it to wait for the next tenure", err)
		}
		if len(failed) != 0 {
			t.Errorf("the next tenure failed too: %v", <-failed)
		}
	})
}
