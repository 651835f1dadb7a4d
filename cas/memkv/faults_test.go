package memkv_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// bubble runs f in a bubble, with a server and two of its clients.
func bubble(t *testing.T, f func(t *testing.T, a, b *memkv.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := memkv.New()
		b := a.Server().Client()
		defer a.Close()
		defer b.Close()
		f(t, a, b)
	})
}

func put(t *testing.T, s cas.Store, key string) int64 {
	t.Helper()
	rev, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put(key, []byte("v"))}})
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return rev
}

func putWithin(t *testing.T, s cas.Store, key string, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	_, err := s.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put(key, nil)}})
	return err
}

func has(t *testing.T, s cas.Store, key string) bool {
	t.Helper()
	e, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return e.Rev != 0
}

func TestDelayedRequestArrivesAfterItsCallerGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *memkv.Client) {
		a.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Delay: 10 * time.Second} })
		err := putWithin(t, a, "k", time.Second)
		if !errors.Is(err, cas.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		time.Sleep(8 * time.Second)
		if has(t, b, "k") {
			t.Error("it arrived early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !has(t, b, "k") {
			t.Error("it did not arrive")
		}
	})
}

func TestDelays(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *memkv.Client) {
		a.Intercept(func(c memkv.Call) memkv.Fate {
			if c.Kind == memkv.Commit {
				return memkv.Fate{Delay: time.Second, Reply: 2 * time.Second}
			}
			return memkv.Fate{}
		})
		start := time.Now()
		put(t, a, "k")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the commit took %v, want 3s", took)
		}
		err := putWithin(t, a, "k2", 2*time.Second) // the reply is late
		if !errors.Is(err, cas.ErrUncertain) || !has(t, a, "k2") {
			t.Errorf("late reply: got error %v", err)
		}
	})
}

func TestHang(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *memkv.Client) {
		for _, loss := range []memkv.Loss{memkv.Request, memkv.Reply} {
			a.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: loss, Hang: true} })
			start := time.Now()
			err := putWithin(t, a, "k", time.Minute)
			if took := time.Since(start); took != time.Minute || !errors.Is(err, cas.ErrUncertain) {
				t.Errorf("got error %v after %v, want uncertain after a minute", err, took)
			}
			if applied := has(t, b, "k"); applied != (loss == memkv.Reply) {
				t.Errorf("loss %v: applied %v", loss, applied)
			}
		}
	})
}

func TestLostReadIsNotUncertain(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *memkv.Client) {
		a.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: memkv.Reply} })
		_, get := a.Get(t.Context(), "k")
		_, read := a.Commit(t.Context(), cas.Txn{If: []cas.Cond{cas.Absent("k")}})
		for _, err := range []error{get, read} {
			if !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("got error %v, outcome %q", err, cas.OutcomeOf(err))
			}
		}
	})
}

func TestCutHoldsRequestsUntilItHeals(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *memkv.Client) {
		a.Cut(true)
		a.Cut(true) // again changes nothing
		time.AfterFunc(time.Hour, func() { a.Cut(false) })
		start := time.Now()
		put(t, a, "k")
		if took := time.Since(start); took != time.Hour || !has(t, b, "k") {
			t.Errorf("the commit took %v, want 1h", took)
		}

		a.Cut(true)
		if err := putWithin(t, a, "never", time.Second); !errors.Is(err, cas.ErrUncertain) {
			t.Errorf("got error %v", err)
		}
		a.Cut(false)
		synctest.Wait()
		if has(t, b, "never") {
			t.Error("a request that was given up during the cut arrived after it")
		}

		a.Cut(true)
		time.AfterFunc(time.Second, func() { _ = a.Close() })
		_, err := a.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
		if !errors.Is(err, cas.ErrUncertain) || !errors.Is(err, cas.ErrClosed) {
			t.Errorf("closed while it hangs: got error %v", err)
		}
	})
}

func TestLag(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *memkv.Client) {
		a.Lag(time.Second)
		changes := a.Watch(t.Context(), "", a.Server().Revision())
		start := time.Now()
		put(t, b, "k1")
		time.Sleep(500 * time.Millisecond)
		put(t, b, "k2")
		for i, want := range []time.Duration{time.Second, 1500 * time.Millisecond} {
			<-changes
			if took := time.Since(start); took != want {
				t.Errorf("change %d came after %v, want %v", i, took, want)
			}
		}
		put(t, b, "k3")
		a.Cut(true) // before it is there
		time.Sleep(time.Minute)
		select {
		case c := <-changes:
			t.Errorf("got %v through the cut", c)
		default:
		}
		a.Cut(false)
		if c := <-changes; c.Events[0].Key != "k3" {
			t.Errorf("got %v", c)
		}
	})
}

func TestWithholdLosesEventsButNoRevision(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *memkv.Client) {
		a.Withhold(func(e cas.Event) bool { return e.Deleted })
		changes := a.Watch(t.Context(), "", a.Server().Revision())
		put(t, b, "k")
		rev, err := b.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Delete("k"), cas.Put("l", nil)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Delete("l")}}); err != nil {
			t.Fatal(err)
		}
		<-changes
		if c := <-changes; c.Rev != rev || len(c.Events) != 1 || c.Events[0].Key != "l" {
			t.Errorf("got %v, want only the put of l", c)
		}
		synctest.Wait()
		if err := a.Progress(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := <-changes; c.Rev != rev+1 || c.Events != nil {
			t.Errorf("got %v, want progress up to %d", c, rev+1)
		}
		// What tells that something is missing.
		if d, err := a.Digest(t.Context(), "", rev+1); err != nil || d.Count != 0 {
			t.Errorf("digest: %+v, %v", d, err)
		}
	})
}

func TestBreak(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *memkv.Client) {
		broken, whole := a.Watch(t.Context(), "", 1), b.Watch(t.Context(), "", 1)
		cut := a.Watch(t.Context(), "", 1)
		synctest.Wait()
		a.Break(cas.ErrNoLeader)
		for _, w := range []<-chan cas.Change{broken, cut} {
			if c := <-w; !errors.Is(c.Err, cas.ErrNoLeader) {
				t.Errorf("got %v", c)
			}
		}
		put(t, a, "k")
		if c := <-whole; c.Err != nil {
			t.Errorf("another client's watch: got %v", c)
		}
		if c := <-a.Watch(t.Context(), "", 1); c.Err != nil {
			t.Errorf("a watch begun later: got %v", c)
		}
	})
}

func TestSetClock(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *memkv.Client) {
		a.SetClock(func() time.Duration { return 42 })
		time.Sleep(time.Minute)
		if a.Now() != 42 || b.Now() != time.Minute {
			t.Errorf("got %v and %v", a.Now(), b.Now())
		}
		a.SetClock(nil)
		if a.Now() != time.Minute {
			t.Errorf("got %v", a.Now())
		}
	})
}

func TestExpireAndNoSpaceAreTheServers(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *memkv.Client) {
		l, err := a.Grant(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.PutLeased("k", nil, l.ID)}}); err != nil {
			t.Fatal(err)
		}
		if !a.Server().Expire(l.ID) || a.Server().Expire(l.ID) {
			t.Error("a lease expires once")
		}
		if has(t, a, "k") {
			t.Error("the key outlived its lease")
		}
		if _, err := a.Renew(t.Context(), l.ID); !errors.Is(err, cas.ErrLeaseNotFound) {
			t.Errorf("renew: got error %v", err)
		}
	})
}

// A renewal in the very instant of the expiry comes before it or after it, and counts.
func TestRenewalInTheInstantOfExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *memkv.Client) {
		before := 0
		for range 2000 {
			l, err := a.Grant(t.Context(), 2*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(l.TTL)
			if _, err := a.Renew(t.Context(), l.ID); errors.Is(err, cas.ErrLeaseNotFound) {
				continue
			}
			before++
			time.Sleep(l.TTL - 1)
			if err := a.Revoke(t.Context(), l.ID); err != nil {
				t.Fatalf("a lease that was renewed is gone before its time: %v", err)
			}
		}
		t.Logf("%d of 2000 renewals came before the expiry", before)
	})
}

func TestExpiryInVirtualTimeIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.NewServer(memkv.Config{ExpiryLag: 250 * time.Millisecond, MinTTL: 5 * time.Second}).Client()
		defer s.Close()
		l, err := s.Grant(t.Context(), time.Second)
		if err != nil || l.TTL != 5*time.Second {
			t.Fatalf("got %+v, %v", l, err)
		}
		changes := s.Watch(t.Context(), "", 1)
		if _, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.PutLeased("k", nil, l.ID)}}); err != nil {
			t.Fatal(err)
		}
		<-changes
		start := time.Now()
		if c := <-changes; !c.Events[0].Deleted || time.Since(start) != 5250*time.Millisecond {
			t.Errorf("got %v after %v", c, time.Since(start))
		}
	})
}
