package idemtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

func lookup(t testing.TB, e *idem.Engine, q idem.Request) idem.Found[int] {
	t.Helper()
	f, err := idem.Lookup[int](t.Context(), e, q)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	return f
}

func wantStatus(t testing.TB, f idem.Found[int], status idem.Status, tries int) {
	t.Helper()
	if f.Status != status || f.Tries != tries {
		t.Errorf("got %s after %d tries, want %s after %d", f.Status, f.Tries, status, tries)
	}
}

// Lookup tells each state from the others, and leaves it as it is.
func testLookup(t *testing.T, x *fixture) {
	c := idem.Config{Keep: 2 * time.Second, Tombstone: 20 * time.Second}
	if x.Elapse == nil {
		c.Tombstone = 3 * time.Second
	}
	e, other := x.engine(t, c), x.engine(t, c)
	q := x.request("a")
	for range 2 { // the first has not begun it either
		wantStatus(t, lookup(t, e, q), idem.Absent, 0)
	}
	try := func(failure error) error {
		_, err := idem.Do(t.Context(), e, q, func(ctx context.Context, op *idem.Op) (int, error) {
			_, err := idem.Step(ctx, op, "first", func(context.Context, string) (int, error) { return 1, nil })
			if err != nil {
				return 0, err
			}
			f := lookup(t, other, q)
			wantStatus(t, f, idem.Running, op.Tries())
			if f.Attempt <= 0 || f.Attempt > 2*attempt || !slices.Equal(f.Steps, []string{"first"}) {
				t.Errorf("running: got %+v", f)
			}
			return 7, failure
		})
		return err
	}
	_ = try(idem.Undone(errBoom))
	wantStatus(t, lookup(t, other, q), idem.GivenUp, 1)
	_ = try(errBoom)
	f := lookup(t, other, q)
	wantStatus(t, f, idem.Interrupted, 2)
	if !slices.Equal(f.Steps, []string{"first"}) || f.Attempt != 0 {
		t.Errorf("interrupted: got %+v", f)
	}
	if err := try(nil); err != nil {
		t.Fatal(err)
	}
	f = lookup(t, other, q)
	wantStatus(t, f, idem.Done, 3)
	if f.Result != 7 || f.Err != nil || f.Steps != nil {
		t.Errorf("done: got %+v", f)
	}
	changed := q
	changed.Fingerprint = idem.Fingerprint([]byte("something else"))
	_, err := idem.Lookup[int](t.Context(), e, changed)
	wantAs[*idem.MismatchError](t, err, cas.NotApplied)
	_, err = idem.Lookup[int](t.Context(), e, idem.Request{Scope: x.scope})
	if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("a request without a key: got %v", err)
	}

	x.elapse(t, 4*time.Second, func() bool { f = lookup(t, e, q); return f.Status != idem.Done })
	wantStatus(t, f, idem.Expired, 3)
	wantAs[*idem.ExpiredError](t, f.Err, cas.Applied)
	x.elapse(t, 30*time.Second, func() bool { f = lookup(t, e, q); return f.Status != idem.Expired })
	wantStatus(t, f, idem.Absent, 0)
}

// What was done and has no result to give is told from what was not done.
func testLookupNoResult(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{MaxResult: 10})
	run := func(key, result string, failure error) idem.Found[int] {
		_, _ = idem.Do(t.Context(), e, x.request(key), func(context.Context, *idem.Op) (string, error) { return result, failure })
		return lookup(t, e, x.request(key))
	}
	f := run("failed", "", idem.Final(declined{}))
	wantStatus(t, f, idem.Failed, 1)
	wantAs[*idem.FailedError](t, f.Err, cas.NotApplied)
	f = run("large", "longer than ten", nil)
	wantStatus(t, f, idem.Done, 1)
	wantAs[*idem.TooLargeError](t, f.Err, cas.Applied)
	f = run("string", "x", nil) // no int
	wantStatus(t, f, idem.Done, 1)
	if f.Err == nil || cas.OutcomeOf(f.Err) != cas.Applied || f.Result != 0 {
		t.Errorf("a result of another type: got %+v", f)
	}
}

// A crashed try counts as running for the rest of its attempt; to a later owner it is interrupted at once.
func testLookupTakeover(t *testing.T, x *fixture) {
	e, p := x.engine(t, idem.Config{}), newParty()
	x.crash(t, x.under("a", 5), p)
	for revision, status := range map[int64]idem.Status{4: idem.Running, 5: idem.Running, 6: idem.Interrupted} {
		f := lookup(t, e, x.under("a", revision))
		wantStatus(t, f, status, 1)
		if f.Token != token(5) {
			t.Errorf("token: got %s, want the latest owner's, %s", f.Token, token(5))
		}
	}
	f := lookup(t, e, x.under("a", 5))
	x.elapse(t, 2*attempt, func() bool { f = lookup(t, e, x.under("a", 5)); return f.Status != idem.Running })
	wantStatus(t, f, idem.Interrupted, 1)
}
