package owner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/shard"
)

const key = "alice"

// TestI10_MoveFailsNoRequest: requests at the old owner wait out the hand-off and are told the new one; at the new one
// they wait for its start. None is refused otherwise.
func TestI10_MoveFailsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, tn *owner.Tenure) error {
			time.Sleep(30 * time.Millisecond) // loads
			tn.Ready()
			<-ctx.Done()
			time.Sleep(30 * time.Millisecond) // flushes
			return nil
		}
		c := ownertest.Start(t, 3, accounts, slow, owner.Config{})
		stop := make(chan struct{})
		var clients sync.WaitGroup
		var served atomic.Int64
		for range 8 {
			clients.Go(func() {
				at := c.Owner(key)
				ctx := context.Background()
				for {
					select {
					case <-stop:
						return
					default:
					}
					err := c.Nodes[at].Do(ctx, key, func(context.Context, *owner.Tenure) error {
						time.Sleep(5 * time.Millisecond)
						served.Add(1)
						return nil
					})
					no, moved := errors.AsType[*owner.NotOwnerError](err)
					switch {
					case err == nil:
					case moved && no.Owner.ID != "":
						fmt.Sscanf(no.Owner.ID, "node-%d", &at)
						ctx = owner.AtLeast(context.Background(), no.Epoch) // as a router does
					default:
						t.Errorf("got %v, want it served or sent on", err)
						return
					}
				}
			})
		}
		for i := range 6 {
			before := served.Load()
			c.Move(key, i%3)
			if served.Load() == before && i > 0 {
				t.Errorf("nothing was served between moves %d and %d", i-1, i)
			}
		}
		close(stop)
		clients.Wait()
	})
}

// TestI5_TransferWaitsForRequestsAndHandler: k8s#139991's kind of fault: a lock released while the work still ran.
func TestCase_k8s139991_TransferWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, flushing atomic.Int32
		h := func(ctx context.Context, tn *owner.Tenure) error {
			if n := inside.Load() + flushing.Load(); n != 0 && tn.Owns(key) {
				t.Errorf("a handler started with %d still at work", n)
			}
			tn.Ready()
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), owner.ErrHandoff) {
				return nil
			}
			if tn.Owns(key) {
				if n := inside.Load(); n != 0 {
					t.Errorf("the handler's context ended with %d requests inside", n)
				}
				flushing.Add(1)
				defer flushing.Add(-1)
			}
			time.Sleep(time.Second)
			if tn.Context().Err() != nil {
				t.Error("the tenure's context did not outlive the flush")
			}
			return nil
		}
		c := ownertest.Start(t, 2, accounts, h, owner.Config{})
		from := c.Owner(key)
		var requests sync.WaitGroup
		requests.Go(func() {
			err := c.Nodes[from].Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
				inside.Add(1)
				defer inside.Add(-1)
				<-tn.Draining()
				time.Sleep(3 * time.Second)
				return ctx.Err()
			})
			if err != nil {
				t.Errorf("the request inside: got %v, want nil", err)
			}
		})
		synctest.Wait()
		c.Move(key, 1-from)
		requests.Wait()
	})
}

func TestHandlerFailures(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(context.Context, *owner.Tenure) error
	}{
		{"error after ready", func(_ context.Context, tn *owner.Tenure) error {
			tn.Ready()
			return errors.New("boom")
		}},
		{"panic", func(_ context.Context, tn *owner.Tenure) error {
			tn.Ready()
			panic("boom")
		}},
		{"early return", func(context.Context, *owner.Tenure) error { return nil }},
		{"never ready", func(ctx context.Context, _ *owner.Tenure) error {
			<-ctx.Done()
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Int32
				var last atomic.Int64
				h := func(ctx context.Context, tn *owner.Tenure) error {
					if tn.Owns(key) {
						if e := int64(tn.Token().Epoch); e <= last.Load() {
							t.Errorf("I4: epoch %v after %v", tn.Token().Epoch, shard.Epoch(last.Load()))
						}
						last.Store(int64(tn.Token().Epoch))
						if broken.Add(-1) >= 0 {
							return c.fail(ctx, tn)
						}
					}
					return serve(ctx, tn)
				}
				cl := ownertest.Start(t, 1, accounts, h, owner.Config{StartTimeout: time.Second})
				broken.Store(2)
				// The next tenure fails, and the one after it.
				cl.Lose(key)
				cl.Cut(0, false)
				cl.Settle()
				if got := broken.Load(); got >= 0 {
					t.Errorf("failures left: got %d, want the handler to have been started again after each", got)
				}
			})
		})
	}
}

// TestReleaseAfterFailedStarts: a shard that can't start at one member goes to another.
func TestReleaseAfterFailedStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cl *ownertest.Cluster
		var sick atomic.Pointer[owner.Node] // where alice can't start
		var starts atomic.Int32
		h := func(ctx context.Context, tn *owner.Tenure) error {
			if n := sick.Load(); n != nil && tn.Owns(key) {
				if starts.Add(1) <= 3 {
					return errors.New("the disk is broken")
				}
			}
			return serve(ctx, tn)
		}
		cl = ownertest.Start(t, 2, accounts, h, owner.Config{})
		from := cl.Owner(key)
		sick.Store(cl.Nodes[from])
		cl.Lose(key) // the other takes over, and fails three times
		cl.Cut(from, false)
		cl.Settle()
		if got := cl.Owner(key); got != from {
			t.Errorf("owner after three failed starts at node %d: got %d", 1-from, got)
		}
	})
}

func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warm, cold atomic.Int32
		plain := func(ctx context.Context, tn *owner.Tenure) error {
			if tn.Owns(key) {
				cold.Add(1)
			}
			return serve(ctx, tn)
		}
		config := owner.Config{Prepare: func(ctx context.Context, s int) (owner.Handler, error) {
			time.Sleep(time.Second)
			return func(ctx context.Context, tn *owner.Tenure) error {
				if tn.Token().Shard != s {
					t.Errorf("what was prepared for shard %d serves shard %d", s, tn.Token().Shard)
				}
				if tn.Owns(key) {
					warm.Add(1)
				}
				return serve(ctx, tn)
			}, nil
		}}
		c := ownertest.Start(t, 2, accounts, plain, config)
		cold.Store(0)
		c.Move(key, 1-c.Owner(key))
		if warm.Load() != 1 || cold.Load() != 0 {
			t.Errorf("starts after a move: got %d prepared, %d plain, want 1, 0", warm.Load(), cold.Load())
		}
		from := c.Owner(key)
		c.Lose(key)
		c.Cut(from, false)
		c.Settle()
		if cold.Load() == 0 {
			t.Error("after a crash the plain handler was not used")
		}
	})
}

// TestForced: past DrainTimeout the move goes on without the old handler, unless NeverForce.
func TestForced(t *testing.T) {
	for _, never := range []bool{false, true} {
		t.Run(fmt.Sprintf("NeverForce=%v", never), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				stuck := make(chan *owner.Tenure, 1)
				h := func(ctx context.Context, tn *owner.Tenure) error {
					tn.Ready()
					<-ctx.Done()
					if tn.Owns(key) && errors.Is(context.Cause(ctx), owner.ErrHandoff) {
						select {
						case stuck <- tn:
							<-free // ignores every context
						default:
						}
					}
					return nil
				}
				var forced atomic.Int32
				config := owner.Config{DrainTimeout: 2 * time.Second, NeverForce: never}
				config.Hooks.Tenure = func(ev owner.Event) {
					if ev.State == owner.Forced {
						forced.Add(1)
					}
				}
				c := ownertest.Start(t, 2, accounts, h, config)
				from := c.Owner(key)
				if never {
					time.AfterFunc(time.Minute, func() { close(free) })
				}
				start := time.Now()
				c.Move(key, 1-from)
				took := time.Since(start)
				old := <-stuck
				if never {
					if took < time.Minute || forced.Load() != 0 {
						t.Errorf("moved after %v, forced %d times: want it to wait for the handler", took, forced.Load())
					}
					return
				}
				if took < 2*time.Second || took > 3*time.Second || forced.Load() != 1 {
					t.Errorf("moved after %v, forced %d times: want DrainTimeout and 1", took, forced.Load())
				}
				if _, ok := errors.AsType[*owner.LostError](context.Cause(old.Context())); !ok {
					t.Errorf("cause of the stuck tenure's context: got %v, want a LostError", context.Cause(old.Context()))
				}
				close(free)
			})
		})
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		h := func(ctx context.Context, tn *owner.Tenure) error {
			tn.Ready()
			<-ctx.Done()
			if tn.Owns(key) && errors.Is(context.Cause(ctx), owner.ErrHandoff) {
				<-hold
			}
			return nil
		}
		c := ownertest.Start(t, 2, accounts, h, owner.Config{MaxWaiting: 2, WaitTimeout: time.Second, DrainTimeout: time.Hour})
		from := c.Owner(key)
		moved := make(chan struct{})
		go func() { c.Move(key, 1-from); close(moved) }()
		<-c.Tenure(key).Draining()
		do := func(ctx context.Context) error {
			return c.Nodes[from].Do(ctx, key, func(context.Context, *owner.Tenure) error {
				t.Error("ran while the shard drained")
				return nil
			})
		}
		gone, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var timedOut, gaveUp error
		all.Go(func() { timedOut = do(t.Context()) })
		all.Go(func() { gaveUp = do(gone) })
		synctest.Wait()
		if err := do(t.Context()); !errors.Is(err, owner.ErrBusy) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("the third of MaxWaiting 2: got %v, want ErrBusy, not applied", err)
		}
		cancel()
		all.Wait()
		if !errors.Is(gaveUp, context.Canceled) || cas.OutcomeOf(gaveUp) != cas.NotApplied {
			t.Errorf("a caller that gave up: got %v, want its context's error, not applied", gaveUp)
		}
		if !errors.Is(timedOut, owner.ErrBusy) || cas.OutcomeOf(timedOut) != cas.NotApplied {
			t.Errorf("past WaitTimeout: got %v, want ErrBusy, not applied", timedOut)
		}
		close(hold)
		<-moved
	})
}

// TestLeave: a node that leaves hands everything over; the last one just ends its handlers in good order.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flushed, lost atomic.Int32
		h := func(ctx context.Context, tn *owner.Tenure) error {
			tn.Ready()
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), owner.ErrHandoff) {
				flushed.Add(1)
			} else {
				lost.Add(1)
			}
			return nil
		}
		c := ownertest.Start(t, 3, accounts, h, owner.Config{})
		start := time.Now()
		for i := range c.Nodes {
			c.Leave(i)
			if err := c.Nodes[i].Ready(); err == nil {
				t.Errorf("Ready of node %d after it left: got nil", i)
			}
		}
		if lost.Load() != 0 || flushed.Load() < int32(accounts.Shards) {
			t.Errorf("tenures lost: got %d, flushed: got %d, want 0 and at least %d", lost.Load(), flushed.Load(), accounts.Shards)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("three nodes took %v to leave one after another", took)
		}
		members, err := owner.NewAdmin(c.Store, accounts).Members(t.Context())
		if err != nil || len(members) != 0 {
			t.Errorf("members in the end: got %v, %v, want none", members, err)
		}
	})
}
