package idemtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

func testOversize(t *testing.T, x *fixture) {
	e, p := x.engine(t, idem.Config{MaxResult: 1000}), newParty()
	large := strings.Repeat("x", 999) // two more as JSON
	runs := 0
	got, err := idem.Do(t.Context(), e, x.request("a"), count(&runs, large))
	want(t, got, err, large)
	for range 2 {
		_, err = idem.Do(t.Context(), e, x.request("a"), count(&runs, "small"))
		if e := wantAs[*idem.TooLargeError](t, err, cas.Applied); e.Size != 1001 || e.Step != "" {
			t.Errorf("got %+v", e)
		}
	}
	if runs != 1 {
		t.Errorf("fn ran %d times, want once", runs)
	}
	got, err = idem.Do(t.Context(), e, x.request("b"), count(&runs, large[:998]))
	want(t, got, err, large[:998])
	got, err = idem.Do(t.Context(), e, x.request("b"), count(&runs, ""))
	want(t, got, err, large[:998])

	// So it is with a step, whose operation can then not go on.
	for try := range 3 {
		_, _ = idem.Do(t.Context(), e, x.request("step"), func(ctx context.Context, op *idem.Op) (string, error) {
			s, err := idem.Step(ctx, op, "large", func(ctx context.Context, key string) (string, error) {
				_, err := p.charge(ctx, key)
				return large, err
			})
			if try > 0 {
				if e := wantAs[*idem.TooLargeError](t, err, cas.Applied); e.Size != 1001 || e.Step != "large" {
					t.Errorf("got %+v", e)
				}
			} else if s != large || err != nil {
				t.Errorf("the first time: got %d bytes, %v", len(s), err)
			}
			return "", errBoom
		})
	}
	for _, n := range p.asked {
		if n != 1 {
			t.Errorf("the step ran %d times, want once", n)
		}
	}
	// What can't be kept as JSON is done all the same.
	for range 2 {
		_, err = idem.Do(t.Context(), e, x.request("json"), func(context.Context, *idem.Op) (func(), error) { runs++; return func() {}, nil })
		if err == nil || cas.OutcomeOf(err) != cas.Applied {
			t.Errorf("a result that is no JSON: got %v", err)
		}
	}
	if runs != 3 {
		t.Errorf("fn ran %d times in all, want 3", runs)
	}
}

// After the replay a retry is told so, and is not taken for something new.
func testExpiry(t *testing.T, x *fixture) {
	c := idem.Config{Keep: 2 * time.Second, Tombstone: 20 * time.Second}
	if x.Elapse == nil {
		c.Tombstone = 3 * time.Second
	}
	e := x.engine(t, c)
	runs := 0
	again := func() (int, error) { return idem.Do(t.Context(), e, x.request("a"), count(&runs, 1)) }
	got, err := again()
	want(t, got, err, 1)
	fail := func() error {
		_, err := idem.Do(t.Context(), e, x.request("f"), func(context.Context, *idem.Op) (int, error) { return 0, idem.Final(declined{}) })
		return err
	}
	_ = fail()
	x.elapse(t, 4*time.Second, func() bool {
		_, err = again()
		return err != nil
	})
	wantAs[*idem.ExpiredError](t, err, cas.Applied)
	wantAs[*idem.ExpiredError](t, fail(), cas.NotApplied)
	if runs != 1 {
		t.Fatalf("fn ran %d times before the tombstone's end, want once", runs)
	}
	x.elapse(t, 30*time.Second, func() bool {
		got, err = again()
		return err == nil
	})
	if runs != 2 {
		t.Errorf("fn ran %d times, want a second one after the tombstone's end", runs)
	}
}

// The caller may go: what was done is recorded.
func testCancelled(t *testing.T, x *fixture) {
	e, p := x.engine(t, idem.Config{}), newParty()
	for _, fails := range []bool{false, true} {
		q := x.request(map[bool]string{false: "done", true: "failed"}[fails])
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = idem.Do(ctx, e, q, func(ctx context.Context, op *idem.Op) (string, error) {
			cancel()
			s, err := idem.Step(ctx, op, "charge", p.charge)
			if fails && err == nil {
				err = ctx.Err()
			}
			return s, err
		})
		got, err := idem.Do(t.Context(), e, q, func(ctx context.Context, op *idem.Op) (string, error) {
			if !fails {
				t.Error("fn ran again, though it was done when its caller went")
			}
			return idem.Step(ctx, op, "charge", func(context.Context, string) (string, error) {
				t.Error("a step ran again, though it was done when its caller went")
				return "", nil
			})
		})
		if !strings.HasPrefix(got, "charge ") || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	p.want(t, 2)
}

// A context that has ended before the call, or ends at once, leads to nothing or to everything.
func testZeroTime(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	runs := 0
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for i, ctx := range []context.Context{ended, past} {
		q := x.request([]string{"a", "b"}[i])
		before := runs
		_, err := idem.Do(ctx, e, q, count(&runs, 1))
		if err == nil {
			if runs != before+1 {
				t.Error("a result without a run")
			}
		} else if cas.OutcomeOf(err) != cas.NotApplied || runs != before {
			t.Errorf("got %v (%s) and %d runs", err, cas.OutcomeOf(err), runs-before)
		}
		before = runs
		q.Wait = patience
		got, err := idem.Do(t.Context(), e, q, count(&runs, 1))
		want(t, got, err, 1)
		if runs > before+1 {
			t.Error("ran twice")
		}
	}
	// No time for recording at all: it may be lost, and that has to be said.
	p := newParty()
	hasty := x.engine(t, idem.Config{Finish: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := idem.Do(ctx, hasty, x.under("c", 5), func(ctx context.Context, op *idem.Op) (string, error) {
		cancel()
		return idem.Step(ctx, op, "charge", p.charge)
	})
	if err != nil && cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("got %v (%s), want it uncertain", err, cas.OutcomeOf(err))
	}
	_, err = idem.Do(t.Context(), e, x.under("c", 6), func(ctx context.Context, op *idem.Op) (string, error) {
		return idem.Step(ctx, op, "charge", p.charge)
	})
	if err != nil {
		t.Error(err)
	}
	p.want(t, 1)
}
