package cas_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// slow is a store, in virtual time, where each way takes 5 ms. kinds are the calls that it got.
func slow(t *testing.T) (s *memkv.Client, kinds func() []string) {
	var mu sync.Mutex
	var got []string
	s = memkv.New()
	t.Cleanup(func() { s.Close() })
	s.Intercept(func(c memkv.Call) memkv.Fate {
		mu.Lock()
		defer mu.Unlock()
		kind := "read"
		if len(c.Txn.Then) > 0 {
			kind = "commit"
		}
		got = append(got, kind)
		return memkv.Fate{Delay: 5 * time.Millisecond, Reply: 5 * time.Millisecond}
	})
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// Calls in one process for one key are in nobody's way: one read, and then a commit each, in the order in which
// they came.
func TestLine_OneRoundTripEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kinds := slow(t)
		const n = 16
		var order []int // f runs in turns, which the race detector holds
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				_, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
					order = append(order, i)
					a.Balance++
					return nil
				}, cas.UpdateConfig{})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got := kinds()
		if want := append([]string{"read"}, slices.Repeat([]string{"commit"}, n)...); !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
		if !slices.IsSorted(order) || balance(t, s) != n {
			t.Errorf("%d came of %d, in the order %v", balance(t, s), n, order)
		}
		if n := cas.Lines(); n != 0 {
			t.Errorf("%d lines are left", n)
		}
	})
}

// What another process has done before a call began, the call sees, though the one before it in line doesn't know of it.
func TestLine_NeverOlderThanTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := slow(t)
		other := s.Server().Client()
		defer other.Close()
		first := make(chan error, 1)
		go func() { first <- second(cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{})) }()
		time.Sleep(16 * time.Millisecond) // read; and committed, but the reply is under way
		put(t, other, `{"balance":100}`)
		saw := -1
		_, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
			if saw < 0 {
				saw = a.Balance
			}
			a.Balance++
			return nil
		}, cas.UpdateConfig{})
		if err := errors.Join(err, <-first); err != nil {
			t.Error(err)
		}
		if saw != 100 {
			t.Errorf("the function saw %d first, and 100 was there when the call began", saw)
		}
	})
}

// Nobody waits behind one that stands still: neither for its function nor for the store's reply to it.
func TestLine_NobodyWaitsForOneThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		release := make(chan struct{})
		stuck := make(chan error, 1)
		go func() {
			_, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
				<-release
				a.Balance++
				return nil
			}, cas.UpdateConfig{})
			stuck <- err
		}()
		synctest.Wait()
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{Tries: 100}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("they waited %v", took)
		}
		close(release)
		if err := <-stuck; err != nil {
			t.Error(err)
		}
		if got := balance(t, s); got != 6 || cas.Lines() != 0 {
			t.Errorf("counted to %d, want 6; %d lines are left", got, cas.Lines())
		}
	})
}

// A call whose context ends in line was not applied, and those behind it move up; and so they do if the function panics.
func TestLine_WhoGivesUpOrPanicsMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		release := make(chan struct{})
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = cas.Update(t.Context(), s, "acct", func(*account) error {
				<-release
				panic("of the caller")
			}, cas.UpdateConfig{})
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone, next := make(chan error, 1), make(chan error, 1)
		go func() { gone <- second(cas.Update(ctx, s, "acct", add(1), cas.UpdateConfig{})) }()
		synctest.Wait()
		go func() { next <- second(cas.Update(t.Context(), s, "acct", add(2), cas.UpdateConfig{})) }()
		synctest.Wait()
		why := errors.New("no time")
		cancel(why)
		if err := <-gone; !errors.Is(err, why) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v", err)
		}
		start := time.Now()
		close(release)
		if err := <-next; err != nil || time.Since(start) != 0 {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		if r := <-panicked; r != "of the caller" {
			t.Errorf("recovered %v", r)
		}
		if got := balance(t, s); got != 2 || cas.Lines() != 0 {
			t.Errorf("got %d, want 2; %d lines are left", got, cas.Lines())
		}
	})
}

// A store that can't be compared has no line.
func TestLine_StoreThatIsNotComparable(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	type tagged struct {
		cas.KV
		tag any
	}
	if _, err := cas.Update(t.Context(), cas.KV(tagged{s, []string{"test"}}), "acct", add(3), cas.UpdateConfig{}); err != nil || balance(t, s) != 3 {
		t.Errorf("got %d, %v", balance(t, s), err)
	}
}
