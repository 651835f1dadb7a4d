package owner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
)

func latest(n *owner.Node, t *owner.Tenure) owner.Event {
	for _, ev := range n.Status().Shards {
		if ev.Token == t.Token() {
			return ev
		}
	}
	return owner.Event{}
}

func TestStatusSaysHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, tn *owner.Tenure) error {
			time.Sleep(3 * time.Second)
			return serve(ctx, tn)
		}
		c := ownertest.Start(t, 1, accounts, slow, owner.Config{})
		before := latest(c.Nodes[0], c.Tenure(key))
		time.Sleep(time.Minute)
		got := latest(c.Nodes[0], c.Tenure(key))
		if got.State != owner.Ready || got.Took != 3*time.Second {
			t.Errorf("got %s after %v in the state before, want ready after 3s", got.State, got.Took)
		}
		if age, since := got.Age-before.Age, got.For-before.For; age != time.Minute || since != time.Minute || got.Age != got.For+3*time.Second {
			t.Errorf("a minute made age grow by %v to %v, and the time in the state by %v to %v", age, got.Age, since, got.For)
		}
	})
}

// counted is what f adds to n's counters, times left out.
func counted(n *owner.Node, f func()) owner.Counters {
	was := n.Status().Counters
	f()
	is := n.Status().Counters
	return owner.Counters{
		Waits: is.Waits - was.Waits, Busy: is.Busy - was.Busy, Granted: is.Granted - was.Granted, HandedOff: is.HandedOff - was.HandedOff,
		Forced: is.Forced - was.Forced, Lost: is.Lost - was.Lost, Failed: is.Failed - was.Failed, Fenced: is.Fenced - was.Fenced,
	}
}

func wantCounted(t *testing.T, what string, got, want owner.Counters) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestCountersOfHandOffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		h := func(ctx context.Context, tn *owner.Tenure) error {
			_ = serve(ctx, tn)
			if tn.Owns(key) {
				time.Sleep(time.Second)
			}
			if tn.Owns("stuck") {
				<-free
			}
			return nil
		}
		c := ownertest.Start(t, 2, accounts, h, owner.Config{DrainTimeout: 2 * time.Second, WaitTimeout: 500 * time.Millisecond})
		from := c.Owner(key)
		n := c.Nodes[from]
		held := n.Status().Counters.Held
		age := latest(n, c.Tenure(key)).Age
		wantCounted(t, "a hand-off that a request waits for in vain", counted(n, func() {
			go func() {
				<-c.Tenure(key).Draining()
				if err := n.Do(t.Context(), key, func(context.Context, *owner.Tenure) error { return nil }); !errors.Is(err, owner.ErrBusy) {
					t.Errorf("got %v, want busy", err)
				}
			}()
			c.Move(key, 1-from)
		}), owner.Counters{Waits: 1, Busy: 1, HandedOff: 1, Granted: 1}) // balance gives another shard in return
		got := n.Status()
		if got.Counters.Waited != 500*time.Millisecond || got.Waiting != 0 {
			t.Errorf("waited %v in all, and %d wait; want 500ms and none", got.Counters.Waited, got.Waiting)
		}
		if grew := got.Counters.Held - held; grew < age+time.Second || grew > age+time.Minute {
			t.Errorf("held: grew by %v, want the %v of the tenure and the second of its end", grew, age)
		}
		from = c.Owner("stuck")
		wantCounted(t, "a forced one", counted(c.Nodes[from], func() { c.Move("stuck", 1-from) }), owner.Counters{Forced: 1, Granted: 1})
		wantCounted(t, "and at who takes over", counted(c.Nodes[from], func() {
			close(free)
			c.Move("stuck", from)
		}), owner.Counters{Granted: 1, HandedOff: 1})
	})
}

func TestCountersOfLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 1, accounts, serve, owner.Config{})
		n := c.Nodes[0]
		time.Sleep(5 * time.Second) // renewals
		was := n.Status().Counters
		c.Cut(0, true)
		time.Sleep(10 * time.Second)
		is := n.Status().Counters
		if is.Lost-was.Lost != int64(accounts.Shards) || is.RenewalFailures == was.RenewalFailures || was.Renewals == 0 {
			t.Errorf("got %+v after %+v, want every tenure lost, and renewals that failed", is, was)
		}
		c.Cut(0, false)
		c.Settle()
	})
}

// fencedError says of itself what fence.FencedError does.
type fencedError struct{}

func (fencedError) Error() string { return "fence: a newer owner has sealed" }
func (fencedError) Fenced() bool  { return true }

// A tenure that a fence has refused is counted once, whoever tells, and also when it has been lost for long.
func TestCountersOfFences(t *testing.T) {
	fenced := fmt.Errorf("saving: %w", fencedError{})
	synctest.Test(t, func(t *testing.T) {
		fail := true
		h := func(ctx context.Context, tn *owner.Tenure) error {
			if tn.Owns(key) && fail {
				fail = false
				return fenced // by Seal, say
			}
			return serve(ctx, tn)
		}
		c := ownertest.Start(t, 1, accounts, h, owner.Config{})
		n := c.Nodes[0]
		if got := n.Status().Counters.Fenced; got != 1 {
			t.Errorf("a refused seal: got %d, want 1", got)
		}
		old := c.Tenure(key)
		wantCounted(t, "refused twice", counted(n, func() {
			old.Fail(fenced)
			old.Fail(fenced)
			synctest.Wait()
		}), owner.Counters{Failed: 1, Fenced: 1})
		c.Settle()
		zombie := c.Tenure(key)
		zombie.Fail(errors.New("something else"))
		synctest.Wait()
		c.Settle()
		wantCounted(t, "refused after its end", counted(n, func() { zombie.Fail(fenced) }), owner.Counters{Fenced: 1})
	})
}
