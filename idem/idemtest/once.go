package idemtest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

type receipt struct {
	Charge string
	Amount int
}

// count returns an fn that returns v and counts its runs.
func count[R any](runs *int, v R) func(context.Context, *idem.Op) (R, error) {
	return func(context.Context, *idem.Op) (R, error) { *runs++; return v, nil }
}

func testRunsOnce(t *testing.T, x *fixture) {
	a, b := x.engine(t, idem.Config{}), x.engine(t, idem.Config{})
	runs := 0
	first := receipt{"ch_1", 7}
	for i, e := range []*idem.Engine{a, a, b} {
		got, err := idem.Do(t.Context(), e, x.request("pay"), count(&runs, receipt{"ch_1", 7 + runs}))
		if err != nil || got != first {
			t.Errorf("call %d: got %+v, %v, want %+v", i, got, err, first)
		}
	}
	if runs != 1 {
		t.Errorf("fn ran %d times, want once", runs)
	}
	// What was kept may be read by a later version of the program, or not.
	_, err := idem.Do(t.Context(), b, x.request("pay"), count(&runs, 5))
	if cas.OutcomeOf(err) != cas.Applied || runs != 1 {
		t.Errorf("read as an int: got %v (%s), %d runs, want an error that says applied, 1 run", err, cas.OutcomeOf(err), runs)
	}
}

func testScopes(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	runs := 0
	names := [][2]string{{"a", "b/c"}, {"a/b", "c"}, {"a", "b"}, {"ab", ""}, {"b", "a"}, {"a\x00b", "c"}, {"a", "\x00b"}}
	for i, n := range names {
		q := idem.Request{Scope: x.scope + n[0], Key: n[1] + "x"}
		got, err := idem.Do(t.Context(), e, q, count(&runs, i))
		want(t, got, err, i)
	}
	if runs != len(names) {
		t.Errorf("%d of %d operations ran", runs, len(names))
	}
	for _, q := range []idem.Request{{}, {Scope: "a"}, {Key: "a"}, {Scope: "\xff", Key: "a"}, {Scope: "a", Key: string(make([]byte, 1025))}} {
		if _, err := idem.Do(t.Context(), e, q, count(&runs, 0)); cas.OutcomeOf(err) != cas.NotApplied || runs != len(names) {
			t.Errorf("Do(%.40q, %.40q): got %v, %d runs, want an error and %d", q.Scope, q.Key, err, runs, len(names))
		}
	}
}

// Whatever became of the first try, a later one with another fingerprint is refused.
func testFingerprint(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{MaxResult: 100})
	boom := errors.New("boom")
	do := func(fn func(context.Context, *idem.Op) (string, error)) func(idem.Request) {
		return func(q idem.Request) { _, _ = idem.Do(t.Context(), e, q, fn) }
	}
	runs := 0
	for name, first := range map[string]func(idem.Request){
		"done":   do(count(&runs, "x")),
		"failed": do(func(context.Context, *idem.Op) (string, error) { return "", idem.Final(boom) }),
		"open":   do(func(context.Context, *idem.Op) (string, error) { return "", idem.Undone(boom) }),
		"doubt":  do(func(context.Context, *idem.Op) (string, error) { return "", boom }),
		"large":  do(count(&runs, string(make([]byte, 200)))),
		"crashed": func(q idem.Request) {
			dying := x.on(t, &faulty{Store: x.Harness.Open(t), fate: dead(2, denied)}, idem.Config{})
			_, _ = idem.Do(t.Context(), dying, q, count(&runs, "x"))
		},
	} {
		first(x.request(name))
		before := runs
		for what, print := range map[string][]byte{"another": idem.Fingerprint([]byte("other")), "none": nil} {
			for _, policy := range []idem.Policy{idem.Retry(), idem.Block()} {
				q := x.request(name)
				q.Fingerprint, q.Interrupted = print, policy
				_, err := idem.Do(t.Context(), e, q, count(&runs, "y"))
				if got := wantAs[*idem.MismatchError](t, err, cas.NotApplied); got.Key != name {
					t.Errorf("%s, %s: got key %q", name, what, got.Key)
				}
				q.Token = token(9)
				_, err = idem.Do(t.Context(), e, q, count(&runs, "y"))
				wantAs[*idem.MismatchError](t, err, cas.NotApplied)
				wantAs[*idem.MismatchError](t, idem.Settle(t.Context(), e, q, "y"), cas.NotApplied)
				wantAs[*idem.MismatchError](t, e.Reopen(t.Context(), q), cas.NotApplied)
			}
		}
		if runs != before {
			t.Errorf("%s: fn ran with another fingerprint", name)
		}
	}
	// While it is running.
	_, err := idem.Do(t.Context(), e, x.request("running"), func(ctx context.Context, _ *idem.Op) (string, error) {
		q := x.request("running")
		_, err := idem.Do(ctx, e, q, count(&runs, "y"))
		wantAs[*idem.InProgressError](t, err, cas.NotApplied)
		q.Fingerprint = nil
		_, err = idem.Do(ctx, e, q, count(&runs, "y"))
		wantAs[*idem.MismatchError](t, err, cas.NotApplied)
		return "x", nil
	})
	if err != nil {
		t.Error(err)
	}
}

func testErrors(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	boom := errors.New("boom")
	var tries []int
	try := func(err error) (string, error) {
		return idem.Do(t.Context(), e, x.request("a"), func(_ context.Context, op *idem.Op) (string, error) {
			tries = append(tries, op.Tries())
			return "x", err
		})
	}
	if _, err := try(boom); err != boom {
		t.Errorf("got %v, want fn's own error", err)
	}
	if got, err := try(idem.Undone(boom)); !errors.Is(err, boom) || cas.OutcomeOf(err) != cas.NotApplied || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
	for range 2 {
		got, err := try(nil)
		want(t, got, err, "x")
	}
	if diff := cmp.Diff([]int{1, 2, 3}, tries); diff != "" {
		t.Errorf("tries (-want +got):\n%s", diff)
	}
	if idem.Final(nil) != nil || idem.Undone(nil) != nil {
		t.Error("a mark made an error of nil")
	}
}

type declined struct{}

func (declined) Error() string        { return "card declined" }
func (declined) Outcome() cas.Outcome { return cas.NotApplied }

func testFinal(t *testing.T, x *fixture) {
	e := x.engine(t, idem.Config{})
	runs := 0
	for i := range 3 {
		_, err := idem.Do(t.Context(), e, x.request("a"), func(context.Context, *idem.Op) (int, error) {
			runs++
			return 0, idem.Final(declined{})
		})
		failed := wantAs[*idem.FailedError](t, err, cas.NotApplied)
		if failed.Message != "card declined" || errors.Is(err, declined{}) != (i == 0) {
			t.Errorf("call %d: got %q, is the error itself: %t", i, failed.Message, errors.Is(err, declined{}))
		}
	}
	if runs != 1 {
		t.Errorf("fn ran %d times, want once", runs)
	}
}
