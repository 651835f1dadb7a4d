package idemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

func (x *fixture) wantBalance(t testing.TB, account string, n int) {
	t.Helper()
	if got := x.Tx.Balance(t, account); got != n {
		t.Errorf("balance of %s: got %d, want %d", account, got, n)
	}
}

func (x *fixture) account(name string) string { return x.id(name)[:20] }

func testDoTx(t *testing.T, x *fixture) {
	e, a := x.engine(t, idem.Config{}), x.account("a")
	for range 3 {
		got, err := x.Tx.Do(t.Context(), e, x.request("a"), a, nil)
		want(t, got, err, 1)
	}
	got, err := idem.Do(t.Context(), e, x.request("a"), func(context.Context, *idem.Op) (int, error) { return 5, nil })
	want(t, got, err, 1)
	q := x.request("a")
	q.Fingerprint = nil
	_, err = x.Tx.Do(t.Context(), e, q, a, nil)
	wantAs[*idem.MismatchError](t, err, cas.NotApplied)
	x.wantBalance(t, a, 1)

	// While Do holds the operation, DoTx does not get it.
	got, err = idem.Do(t.Context(), e, x.request("b"), func(ctx context.Context, _ *idem.Op) (int, error) {
		_, err := x.Tx.Do(ctx, e, x.request("b"), a, nil)
		wantAs[*idem.InProgressError](t, err, cas.NotApplied)
		return 7, nil
	})
	want(t, got, err, 7)
	x.wantBalance(t, a, 1)

	// What Do has given up, DoTx may finish.
	_, _ = idem.Do(t.Context(), e, x.request("c"), func(context.Context, *idem.Op) (int, error) { return 0, errBoom })
	got, err = x.Tx.Do(t.Context(), e, x.request("c"), a, nil)
	want(t, got, err, 2)

	// A result that is too large is done.
	small := x.engine(t, idem.Config{MaxResult: 1})
	for range 9 {
		if _, err := x.Tx.Do(t.Context(), e, x.request(fmt.Sprint(x.Tx.Balance(t, a))), a, nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err = x.Tx.Do(t.Context(), small, x.request("large"), a, nil)
	want(t, got, err, 12)
	_, err = x.Tx.Do(t.Context(), small, x.request("large"), a, nil)
	wantAs[*idem.TooLargeError](t, err, cas.Applied)
	x.wantBalance(t, a, 12)

	q = x.request("d")
	q.Interrupted = idem.Reconcile(func(context.Context, *idem.Op) (int, bool, error) { return 0, false, nil })
	if _, err := x.Tx.Do(t.Context(), e, q, a, nil); cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("with Reconcile: got %v, want it refused", err)
	}
}

func testStepTx(t *testing.T, x *fixture) {
	e, a, p := x.engine(t, idem.Config{}), x.account("a"), newParty()
	run := func(err error) (int, error) {
		return idem.Do(t.Context(), e, x.request("a"), func(ctx context.Context, op *idem.Op) (int, error) {
			if _, err := idem.Step(ctx, op, "charge", p.charge); err != nil {
				return 0, err
			}
			n, bad := x.Tx.Step(ctx, op, "book", a, nil)
			return n, errors.Join(bad, err)
		})
	}
	for range 2 {
		if _, err := run(errBoom); !errors.Is(err, errBoom) {
			t.Errorf("got %v", err)
		}
	}
	for range 2 {
		got, err := run(nil)
		want(t, got, err, 1)
	}
	x.wantBalance(t, a, 1)
	p.want(t, 1)
}

func testLastTx(t *testing.T, x *fixture) {
	e, a := x.engine(t, idem.Config{}), x.account("a")
	do := func(key string, end func(n int, err error) (int, error)) (int, error) {
		return idem.Do(t.Context(), e, x.request(key), func(ctx context.Context, op *idem.Op) (int, error) {
			n, err := x.Tx.Last(ctx, op, "book", a, nil)
			if err == nil {
				_, err := idem.Step(ctx, op, "more", func(context.Context, string) (int, error) {
					t.Error("a step ran after the last")
					return 0, nil
				})
				if cas.OutcomeOf(err) != cas.NotApplied {
					t.Errorf("a step after the last: got %v", err)
				}
			}
			return end(n, err)
		})
	}
	plain := func(n int, err error) (int, error) { return n, err }
	for range 2 {
		got, err := do("a", plain)
		want(t, got, err, 1)
	}
	// It has ended with that step, whatever fn does next; and it says so.
	for i, end := range []func(int, error) (int, error){
		func(int, error) (int, error) { return 99, nil },
		func(n int, _ error) (int, error) { return n, errBoom },
	} {
		key := fmt.Sprint("end", i)
		if _, err := do(key, end); err == nil || cas.OutcomeOf(err) != cas.Applied {
			t.Errorf("%s: got %v (%s), want an error that says applied", key, err, cas.OutcomeOf(err))
		}
		got, err := do(key, end)
		want(t, got, err, 2+i)
	}
	panics(func() { _, _ = do("panic", func(int, error) (int, error) { panic("boom") }) })
	got, err := do("panic", plain)
	want(t, got, err, 4)
	x.wantBalance(t, a, 4)
}

// What fails is rolled back, and can be tried again.
func testTxFails(t *testing.T, x *fixture) {
	e, a := x.engine(t, idem.Config{}), x.account("a")
	fail := func() error { return errBoom }
	final := func() error { return idem.Final(declined{}) }
	_, err := x.Tx.Do(t.Context(), e, x.request("do"), a, fail)
	if !errors.Is(err, errBoom) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("Do: got %v (%s), want fn's error, not applied", err, cas.OutcomeOf(err))
	}
	panics(func() { _, _ = x.Tx.Do(t.Context(), e, x.request("do"), a, func() error { panic("boom") }) })
	x.wantBalance(t, a, 0)
	got, err := x.Tx.Do(t.Context(), e, x.request("do"), a, nil)
	want(t, got, err, 1)
	for i := range 2 {
		_, err = x.Tx.Do(t.Context(), e, x.request("final"), a, final)
		failed := wantAs[*idem.FailedError](t, err, cas.NotApplied)
		if errors.Is(failed, declined{}) != (i == 0) {
			t.Errorf("call %d: %v", i, failed)
		}
	}
	x.wantBalance(t, a, 1)

	for _, step := range []func(context.Context, *idem.Op, string, string, func() error) (int, error){x.Tx.Step, x.Tx.Last} {
		before := x.Tx.Balance(t, a)
		got, err = idem.Do(t.Context(), e, x.request(fmt.Sprint("step", before)), func(ctx context.Context, op *idem.Op) (int, error) {
			if _, err := step(ctx, op, "book", a, fail); !errors.Is(err, errBoom) || cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("Step: got %v (%s), want fn's error, not applied", err, cas.OutcomeOf(err))
			}
			if v := panics(func() { _, _ = step(ctx, op, "book", a, func() error { panic(errBoom) }) }); v != errBoom {
				t.Errorf("Step: got panic %v, want fn's", v)
			}
			return step(ctx, op, "book", a, nil)
		})
		want(t, got, err, before+1)
		x.wantBalance(t, a, before+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Tx.Do(ctx, e, x.request("cancelled"), a, nil); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("a context that has ended: got %v (%s)", err, cas.OutcomeOf(err))
	}
	x.wantBalance(t, a, 3)
}

func testTxDuplicates(t *testing.T, x *fixture) {
	a := x.account("a")
	var wg sync.WaitGroup
	for i := range 12 {
		e := x.engine(t, idem.Config{})
		wg.Go(func() {
			q := x.request("a")
			q.Wait = patience
			got, err := x.Tx.Do(t.Context(), e, q, a, nil)
			if i%3 == 0 {
				got, err = idem.Do(t.Context(), e, q, func(ctx context.Context, op *idem.Op) (int, error) {
					return x.Tx.Step(ctx, op, "book", a, nil)
				})
			}
			if got != 1 || err != nil {
				t.Errorf("try %d: got %d, %v, want 1", i, got, err)
			}
		})
	}
	wg.Wait()
	x.wantBalance(t, a, 1)
}

// An earlier owner's transaction is rolled back, whole, if a later owner has taken over meanwhile.
func testTxTakenOver(t *testing.T, x *fixture) {
	old, e := x.engine(t, idem.Config{}), x.engine(t, idem.Config{})
	for _, last := range []bool{false, true} {
		step, a := x.Tx.Step, x.account(fmt.Sprint(last))
		if last {
			step = x.Tx.Last
		}
		var at5 atomic.Bool
		got, err := idem.Do(t.Context(), old, x.under(a, 5), func(ctx context.Context, op *idem.Op) (int, error) {
			got, err := x.Tx.Do(t.Context(), e, x.under(a, 6), a, nil)
			want(t, got, err, 1)
			at5.Store(true)
			_, err = step(ctx, op, "book", a, nil)
			wantAs[*idem.LostError](t, err, cas.Uncertain)
			return 0, err
		})
		if err == nil || !at5.Load() {
			t.Errorf("the earlier owner: got %d, %v", got, err)
		}
		x.wantBalance(t, a, 1)
	}
	a := x.account("do")
	_, _ = idem.Do(t.Context(), e, x.under("do", 6), func(context.Context, *idem.Op) (int, error) { return 0, errBoom })
	_, err := x.Tx.Do(t.Context(), old, x.under("do", 5), a, nil)
	wantAs[*idem.SupersededError](t, err, cas.NotApplied)
	x.wantBalance(t, a, 0)
}

// testTxCrashes lets the process die inside its transaction, or right after.
func testTxCrashes(t *testing.T, x *fixture) {
	for _, point := range []string{"inside", "after"} {
		for _, kind := range []string{"do", "step", "last"} {
			a := x.account(point + kind)
			die := func() error {
				if point == "inside" {
					panic("crash")
				}
				return nil
			}
			run := func(epoch int64, die func() error, after func()) (int, error) {
				e, q := x.engine(t, idem.Config{}), x.under(a, epoch)
				if kind == "do" {
					n, err := x.Tx.Do(t.Context(), e, q, a, die)
					after()
					return n, err
				}
				return idem.Do(t.Context(), e, q, func(ctx context.Context, op *idem.Op) (int, error) {
					step := x.Tx.Step
					if kind == "last" {
						step = x.Tx.Last
					}
					n, err := step(ctx, op, "book", a, die)
					after()
					return n, err
				})
			}
			panics(func() {
				_, _ = run(5, die, func() { panic("crash") })
			})
			for range 2 {
				got, err := run(6, nil, func() {})
				if got != 1 || err != nil {
					t.Errorf("%s %s: got %d, %v, want 1", point, kind, got, err)
				}
			}
			x.wantBalance(t, a, 1)
		}
	}
}

// The COMMIT's request or reply is lost. It is found out which, and then it is known.
func testLostCommit(t *testing.T, x *fixture) {
	if x.Tx.LoseCommit == nil {
		t.Skip("no network to the database")
	}
	for _, applied := range []bool{false, true} {
		for _, kind := range []string{"do", "step", "last"} {
			a := x.account(fmt.Sprint(applied, kind))
			e := x.on(t, x.Tx.LoseCommit(t, applied), idem.Config{Finish: patience, Attempt: time.Minute})
			run := func(e *idem.Engine) (int, error) {
				if kind == "do" {
					return x.Tx.Do(t.Context(), e, x.request(a), a, nil)
				}
				return idem.Do(t.Context(), e, x.request(a), func(ctx context.Context, op *idem.Op) (int, error) {
					if kind == "last" {
						return x.Tx.Last(ctx, op, "book", a, nil)
					}
					return x.Tx.Step(ctx, op, "book", a, nil)
				})
			}
			got, err := run(e)
			if applied {
				if got != 1 || err != nil {
					t.Errorf("%s, reply lost: got %d, %v, want 1", kind, got, err)
				}
			} else if cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("%s, request lost: got %d, %v (%s), want it not applied", kind, got, err, cas.OutcomeOf(err))
			}
			got, err = run(x.engine(t, idem.Config{}))
			if got != 1 || err != nil {
				t.Errorf("%s, applied %t: then got %d, %v, want 1", kind, applied, got, err)
			}
			x.wantBalance(t, a, 1)
		}
	}
}
