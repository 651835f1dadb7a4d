package idemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

// pay is an operation of two steps.
func pay(runs *atomic.Int64, p *party) func(context.Context, *idem.Op) (string, error) {
	return func(ctx context.Context, op *idem.Op) (string, error) {
		runs.Add(1)
		charge, err := idem.Step(ctx, op, "charge", p.charge)
		if err != nil {
			return "", err
		}
		mail, err := idem.Step(ctx, op, "mail", p.charge)
		return charge + ", " + mail, err
	}
}

// calls counts what pay takes of the store.
func (x *fixture) calls(t testing.TB) int {
	t.Helper()
	s := &faulty{Store: x.Harness.Open(t)}
	var runs atomic.Int64
	if _, err := idem.Do(t.Context(), x.on(t, s, idem.Config{}), x.request("calls"), pay(&runs, newParty())); err != nil {
		t.Fatal(err)
	}
	return int(s.calls.Load())
}

// One request or reply is lost, at each call in turn: nobody notices, and nothing is done twice.
func testLostCalls(t *testing.T, x *fixture) {
	n := x.calls(t)
	if n < 4 {
		t.Fatalf("the operation takes %d calls, want a claim, two steps and a finish", n)
	}
	for call := 1; call <= n; call++ {
		for _, f := range []fate{lostRequest, lostReply} {
			p, q := newParty(), x.request(fmt.Sprintf("%d %s", call, f))
			var runs atomic.Int64
			e := x.on(t, &faulty{Store: x.Harness.Open(t), fate: at(call, f)}, idem.Config{})
			first, err := idem.Do(t.Context(), e, q, pay(&runs, p))
			if err != nil {
				t.Errorf("%s at call %d: %v", f, call, err)
				continue
			}
			again, err := idem.Do(t.Context(), x.engine(t, idem.Config{}), q, pay(&runs, p))
			want(t, again, err, first)
			p.want(t, 2)
			if got := runs.Load(); got != 1 {
				t.Errorf("%s at call %d: fn ran %d times, want once", f, call, got)
			}
		}
	}
}

// The process dies at each call in turn, before or after it was carried out. Its successor, which owns the
// shard under a higher epoch, brings the operation to its end at once.
func testCrashes(t *testing.T, x *fixture) {
	n := x.calls(t)
	for call := 1; call <= n; call++ {
		for _, f := range []fate{denied, lostRequest, lostReply} {
			p, key := newParty(), fmt.Sprintf("%d %s", call, f)
			var runs atomic.Int64
			e := x.on(t, &faulty{Store: x.Harness.Open(t), fate: dead(call, f)}, idem.Config{})
			_, err := idem.Do(t.Context(), e, x.under(key, 5), pay(&runs, p))
			switch {
			case err == nil:
				t.Fatalf("%s at call %d: a dead process had a result", f, call)
			case call == 1 && (cas.OutcomeOf(err) != cas.NotApplied || runs.Load() != 0):
				t.Errorf("%s at the claim: got %v (%s), %d runs, want nothing done", f, err, cas.OutcomeOf(err), runs.Load())
			case call > 1 && cas.OutcomeOf(err) != cas.Uncertain:
				t.Errorf("%s at call %d: %v: outcome: got %s, want uncertain", f, call, err, cas.OutcomeOf(err))
			}
			for range 2 {
				got, err := idem.Do(t.Context(), x.engine(t, idem.Config{}), x.under(key, 6), pay(&runs, p))
				if err != nil || got == "" {
					t.Errorf("%s at call %d: the successor: got %q, %v", f, call, got, err)
				}
			}
			p.want(t, 2)
			if got := runs.Load(); got > 2 {
				t.Errorf("%s at call %d: fn ran %d times, want at most once each", f, call, got)
			}
		}
	}
}

// The store goes away while the result is recorded, and stays away.
func testUnresolved(t *testing.T, x *fixture) {
	p := newParty()
	for _, f := range []fate{lostRequest, lostReply} {
		var runs atomic.Int64
		q := x.under(f.String(), 5)
		e := x.on(t, &faulty{Store: x.Harness.Open(t), fate: dead(4, f)}, idem.Config{})
		_, err := idem.Do(t.Context(), e, q, pay(&runs, p))
		wantAs[*idem.FinishError](t, err, cas.Uncertain)
		// The same owner learns the truth when the store is back: that it is done, or that nobody knows yet.
		got, err := idem.Do(t.Context(), x.engine(t, idem.Config{}), q, pay(&runs, p))
		if f == lostReply {
			if err != nil || got == "" || runs.Load() != 1 {
				t.Errorf("recorded after all: got %q, %v, %d runs, want the result", got, err, runs.Load())
			}
		} else {
			wantAs[*idem.InProgressError](t, err, cas.NotApplied)
		}
	}
	p.want(t, 4)

	// It comes back in time.
	var runs atomic.Int64
	fate := func(n int) fate {
		if n >= 4 && n < 9 {
			return refused
		}
		return passes
	}
	_, err := idem.Do(t.Context(), x.on(t, &faulty{Store: x.Harness.Open(t), fate: fate}, idem.Config{}), x.request("back"), pay(&runs, p))
	if err != nil {
		t.Errorf("a store that comes back within Config.Finish: %v", err)
	}
}

// However many try at once, and in how many processes, one runs and all get its result.
func testDuplicates(t *testing.T, x *fixture) {
	var runs, inside atomic.Int64
	p := newParty()
	results := make([]string, 12)
	var wg sync.WaitGroup
	for i := range results {
		e := x.engine(t, idem.Config{})
		wg.Go(func() {
			q := x.request("a")
			q.Wait = patience
			var err error
			results[i], err = idem.Do(t.Context(), e, q, func(ctx context.Context, op *idem.Op) (string, error) {
				if inside.Add(1) != 1 {
					t.Error("two ran at once")
				}
				defer inside.Add(-1)
				return pay(&runs, p)(ctx, op)
			})
			if err != nil {
				t.Errorf("try %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	p.want(t, 2)
	if got := runs.Load(); got != 1 {
		t.Errorf("fn ran %d times, want once", got)
	}
	for _, r := range results {
		if r != results[0] || r == "" {
			t.Fatalf("results differ: %q", results)
		}
	}
}

// Requests, replies and processes are lost at random, while owners succeed each other: all that is told
// must be true.
func testRandomFaults(t *testing.T, x *fixture) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for op := range 20 {
		p, key := newParty(), fmt.Sprint(op)
		var runs atomic.Int64
		result := ""
		for epoch := int64(1); epoch <= 4; epoch++ {
			fates := make([]fate, 12)
			for i := range fates {
				if rng.IntN(3) == 0 {
					fates[i] = fate(rng.IntN(4))
				}
			}
			dies := rng.IntN(2) == 0
			var f func(int) fate
			finish := patience
			if epoch < 4 {
				finish = 10 * time.Millisecond
				f = func(n int) fate {
					if n <= len(fates) {
						return fates[n-1]
					}
					if dies {
						return denied
					}
					return passes
				}
			}
			e := x.on(t, &faulty{Store: x.Harness.Open(t), fate: f}, idem.Config{Finish: finish})
			before := runs.Load()
			got, err := idem.Do(t.Context(), e, x.under(key, epoch), pay(&runs, p))
			switch {
			case err == nil && result != "" && got != result:
				t.Errorf("results differ: %q, %q", result, got)
			case err == nil && result != "" && runs.Load() != before:
				t.Error("ran again after it was done")
			case err == nil:
				result = got
			case epoch == 4:
				t.Errorf("without faults: %v", err)
			case cas.OutcomeOf(err) == cas.NotApplied && runs.Load() != before:
				t.Errorf("%v says that nothing was done, but fn ran", err)
			}
		}
		p.want(t, 2)
	}
}

// A clock that steps back must not wedge an operation for as long, and one that steps forward must not
// let two finish it.
func testClockSteps(t *testing.T, x *fixture) {
	if x.Step == nil {
		t.Skip("this store's clock can't be set")
	}
	e, p := x.engine(t, idem.Config{}), newParty()
	x.crash(t, x.request("back"), p)
	x.Step(t, -24*time.Hour)
	run := func(key string) (string, error) {
		return idem.Do(t.Context(), e, x.request(key), func(ctx context.Context, op *idem.Op) (string, error) {
			return idem.Step(ctx, op, "charge", p.charge)
		})
	}
	if _, err := run("back"); err != nil {
		if busy := wantAs[*idem.InProgressError](t, err, cas.NotApplied); busy.RetryAfter > 2*attempt {
			t.Errorf("RetryAfter: got %s, want at most %s", busy.RetryAfter, 2*attempt)
		}
	}
	x.elapse(t, 2*attempt, func() bool {
		_, err := run("back")
		return err == nil
	})
	p.want(t, 1)
	x.Step(t, 24*time.Hour)

	got, err := idem.Do(t.Context(), e, x.request("forward"), func(ctx context.Context, op *idem.Op) (string, error) {
		x.Step(t, time.Hour)
		other := x.engine(t, idem.Config{})
		_, err := idem.Do(ctx, other, x.request("forward"), func(context.Context, *idem.Op) (string, error) { return "other", nil })
		if err != nil {
			wantAs[*idem.InProgressError](t, err, cas.NotApplied)
		}
		return "first", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := run("forward")
	want(t, again, err, got)
}
