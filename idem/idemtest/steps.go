package idemtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

var errBoom = errors.New("boom")

// panics runs f, and returns what it panicked with.
func panics(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func testPanic(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	if got := panics(func() {
		_, _ = idem.Do(t.Context(), e, x.request("a"), func(context.Context, *idem.Op) (int, error) { panic(errBoom) })
	}); got != errBoom {
		t.Errorf("got panic %v, want fn's own", got)
	}
	got, err := idem.Do(t.Context(), e, x.request("a"), func(_ context.Context, op *idem.Op) (bool, error) {
		return op.Interrupted(), nil
	})
	want(t, got, err, true)
}

func testSteps(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	p := newParty()
	run := func(fail func(step int)) (receipt, error) {
		return idem.Do(t.Context(), e, x.request("a"), func(ctx context.Context, op *idem.Op) (receipt, error) {
			charge, err := idem.Step(ctx, op, "charge", p.charge)
			if err != nil {
				return receipt{}, err
			}
			fail(1)
			n, err := idem.Step(ctx, op, "count", func(ctx context.Context, key string) (int, error) {
				_, err := p.charge(ctx, key)
				return len(p.asked), err
			})
			fail(2)
			return receipt{charge, n}, err
		})
	}
	for step := range 3 {
		panics(func() {
			_, _ = run(func(at int) {
				if at == step {
					panic("crash")
				}
			})
		})
	}
	got, err := run(func(int) { t.Error("ran once more") })
	if err != nil || !strings.HasPrefix(got.Charge, "charge idem_") || got.Amount != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	p.want(t, 2)
	for key, n := range p.asked {
		if n != 1 {
			t.Errorf("the step with key %s ran %d times, want once", key, n)
		}
	}
	// A step that fails is run again, and one's name is checked.
	_, err = idem.Do(t.Context(), e, x.request("b"), func(ctx context.Context, op *idem.Op) (int, error) {
		fail := func(context.Context, string) (int, error) { return 1, errBoom }
		if n, err := idem.Step(ctx, op, "s", fail); n != 0 || err != errBoom {
			t.Errorf("a step that fails: got %d, %v", n, err)
		}
		for _, name := range []string{"", strings.Repeat("x", 101)} {
			if _, err := idem.Step(ctx, op, name, fail); cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("step %.20q: got %v", name, err)
			}
		}
		from, err := idem.From(ctx)
		if from != op {
			t.Errorf("From: got %v, %v", from, err)
		}
		return idem.Step(ctx, op, "s", func(context.Context, string) (int, error) { return 2, nil })
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := idem.From(t.Context()); err != idem.ErrNoOp {
		t.Errorf("From without Do: got %v", err)
	}
}

// The key of a step is the same on every try: after a crash, a takeover, and when the record is gone.
func testStepKey(t *testing.T, x *fixture) {
	var keys []string
	fn := func(ctx context.Context, op *idem.Op) (int, error) {
		return idem.Step(ctx, op, "charge", func(_ context.Context, key string) (int, error) {
			keys = append(keys, key)
			return 0, errBoom
		})
	}
	e := x.engine(t, idem.Config{})
	do := func(e *idem.Engine, q idem.Request) {
		if _, err := idem.Do(t.Context(), e, q, fn); !errors.Is(err, errBoom) {
			t.Fatalf("got %v, want fn's error", err)
		}
	}
	do(e, x.request("a"))
	dying := x.on(t, &faulty{Store: x.Harness.Open(t), fate: dead(3, denied)}, idem.Config{})
	do(dying, x.under("a", 5))
	do(e, x.under("a", 6))
	if len(keys) != 3 || keys[0] != keys[1] || keys[0] != keys[2] || len(keys[0]) != 45 {
		t.Errorf("got keys %q, want one, thrice", keys)
	}
	do(e, x.request("b"))
	q := x.request("a")
	q.Scope += "2"
	do(e, q)
	if keys[3] == keys[0] || keys[4] == keys[0] {
		t.Errorf("got keys %q, want another operation's to be another", keys)
	}
}

func testBlock(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	runs := 0
	for _, key := range []string{"settled", "reopened"} {
		q := x.request(key)
		q.Interrupted = idem.Block()
		if _, err := idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (int, error) { return 0, errBoom }); err != errBoom {
			t.Fatal(err)
		}
		for range 2 {
			_, err := idem.Do(t.Context(), e, q, count(&runs, 1))
			if blocked := wantAs[*idem.InterruptedError](t, err, cas.Uncertain); blocked.Tries != 1 || blocked.Key != key {
				t.Errorf("got %+v", blocked)
			}
		}
	}
	q := x.request("settled")
	if err := idem.Settle(t.Context(), e, q, 17); err != nil {
		t.Fatal(err)
	}
	got, err := idem.Do(t.Context(), e, q, count(&runs, 1))
	want(t, got, err, 17)
	if runs != 0 {
		t.Errorf("fn ran %d times, want never", runs)
	}
	if err := idem.Settle(t.Context(), e, q, 18); cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("settling a finished one: got %v", err)
	}
	if err := e.Reopen(t.Context(), q); cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("reopening a finished one: got %v", err)
	}

	q = x.request("reopened")
	if err := e.Reopen(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	q.Interrupted = idem.Block()
	got, err = idem.Do(t.Context(), e, q, count(&runs, 1))
	want(t, got, err, 1)

	// What says that nothing was done does not block.
	q = x.request("undone")
	q.Interrupted = idem.Block()
	_, _ = idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (int, error) { return 0, idem.Undone(errBoom) })
	got, err = idem.Do(t.Context(), e, q, count(&runs, 2))
	want(t, got, err, 2)
}

func testReconcile(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	for _, test := range []struct {
		name string
		find func(op *idem.Op) (int, bool, error)
		want int
		log  []string
	}{
		{"settled", func(*idem.Op) (int, bool, error) { return 17, true, nil }, 17, []string{"fn", "look"}},
		{"runs", func(*idem.Op) (int, bool, error) { return 0, false, nil }, 1, []string{"fn", "look", "fn"}},
		{"fails first", func(op *idem.Op) (int, bool, error) {
			if op.Tries() == 2 {
				return 0, false, idem.Undone(errBoom)
			}
			return 18, true, nil
		}, 18, []string{"fn", "look", "look"}},
	} {
		var log []string
		q := x.request(test.name)
		q.Interrupted = idem.Reconcile(func(_ context.Context, op *idem.Op) (int, bool, error) {
			log = append(log, "look")
			return test.find(op)
		})
		fn := func(_ context.Context, op *idem.Op) (int, error) {
			log = append(log, "fn")
			if op.Tries() == 1 {
				return 0, errBoom
			}
			return 1, nil
		}
		var got int
		err := errBoom
		for range 3 {
			if err != nil {
				got, err = idem.Do(t.Context(), e, q, fn)
			}
		}
		want(t, got, err, test.want)
		got, err = idem.Do(t.Context(), e, q, fn)
		want(t, got, err, test.want)
		if diff := cmp.Diff(test.log, log); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// A later try that gives up without having done anything leaves the doubt about the one before.
func testDoubt(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	do := func(policy idem.Policy, err error) error {
		q := x.request("a")
		q.Interrupted = policy
		_, err = idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (int, error) { return 0, err })
		return err
	}
	_ = do(idem.Retry(), errBoom)
	_ = do(idem.Retry(), idem.Undone(errBoom))
	wantAs[*idem.InterruptedError](t, do(idem.Block(), nil), cas.Uncertain)
	_ = do(idem.Reconcile(func(context.Context, *idem.Op) (int, bool, error) { return 0, false, nil }), idem.Undone(errBoom))
	if err := do(idem.Block(), nil); err != nil {
		t.Errorf("after it was reconciled: got %v", err)
	}
}
