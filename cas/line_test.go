package cas_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// Nobody waits for longer than a turn may take behind one that stands still: for its function, or for the store's reply to
// it. That others were in line before makes no difference.
func TestLine_NobodyWaitsForOneThatStandsStill(t *testing.T) {
	for _, still := range []string{"function", "store"} {
		synctest.Test(t, func(t *testing.T) {
			server := memkv.NewServer(memkv.Config{})
			s := server.Client()
			defer s.Close()
			release := make(chan struct{})
			first := make(chan error, 2)
			go func() {
				first <- second(cas.Update(t.Context(), s, "acct", func(*account) error {
					time.Sleep(200 * time.Millisecond)
					return nil
				}, cas.UpdateConfig{}))
			}()
			synctest.Wait()
			slow := add(1)
			if still == "function" {
				slow = func(a *account) error { <-release; return add(1)(a) }
			} else {
				var commits atomic.Int32
				s.Intercept(func(c memkv.Call) memkv.Fate {
					if len(c.Txn.Then) > 0 && commits.Add(1) == 2 {
						return memkv.Fate{Delay: time.Hour}
					}
					return memkv.Fate{}
				})
			}
			go func() { first <- second(cas.Update(t.Context(), s, "acct", slow, cas.UpdateConfig{Tries: 100})) }()
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
			if took := time.Since(start); took < 400*time.Millisecond || took > 550*time.Millisecond {
				t.Errorf("%s: they waited %v, want 200ms and 250ms and a little", still, took)
			}
			close(release)
			if err := errors.Join(<-first, <-first); err != nil {
				t.Error(err)
			}
			if got := balance(t, s); got != 6 || cas.Lines() != 0 {
				t.Errorf("counted to %d, want 6; %d lines are left", got, cas.Lines())
			}
		})
	}
}

// One that many are before, each slow but not too slow, waits for half of the time that it has, or for 2 s.
func TestLine_WaitIsBounded(t *testing.T) {
	for _, c := range []struct{ deadline, want time.Duration }{{2 * time.Second, time.Second}, {time.Hour, 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					_, _ = cas.Update(t.Context(), s, "acct", func(a *account) error {
						time.Sleep(200 * time.Millisecond)
						return add(1)(a)
					}, cas.UpdateConfig{})
				})
			}
			synctest.Wait()
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			if _, err := cas.Update(ctx, s, "acct", add(1), cas.UpdateConfig{}); err != nil || time.Since(start) > c.want+10*time.Millisecond {
				t.Errorf("got %v after %v, want %v", err, time.Since(start), c.want)
			}
			wg.Wait()
			if cas.Lines() != 0 {
				t.Errorf("%d lines are left", cas.Lines())
			}
		})
	}
}

// What the one before has stored is all there is to know of the key: its lease too.
func TestLine_LeasedKeyStaysLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := slow(t)
		l, err := s.Grant(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.PutLeased("acct", []byte(`{}`), l.ID)}}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if e, err := s.Get(t.Context(), "acct"); err != nil || e.Lease != l.ID {
			t.Errorf("lease %d, %v, want %d", e.Lease, err, l.ID)
		}
	})
}

// A call with a receipt looks at it before the function runs, whatever the one before has stored.
func TestLine_ReceiptBeforeTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := slow(t)
		put(t, s, `{"balance":30}`)
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				_, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
					if a.Balance < 30 {
						return errors.New("too little")
					}
					a.Balance -= 30
					return nil
				}, cas.UpdateConfig{Receipt: "p1"})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
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
