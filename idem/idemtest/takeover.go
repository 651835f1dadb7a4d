package idemtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

// crash lets a try under q come as far as its first step, and then die.
func (x *fixture) crash(t testing.TB, q idem.Request, p *party) {
	t.Helper()
	dying := x.on(t, &faulty{Store: x.Harness.Open(t), fate: dead(3, denied)}, idem.Config{})
	_, err := idem.Do(t.Context(), dying, q, func(ctx context.Context, op *idem.Op) (string, error) {
		return idem.Step(ctx, op, "charge", p.charge)
	})
	wantAs[*idem.FinishError](t, err, cas.Uncertain)
}

func testTakeover(t *testing.T, x *fixture) {
	e, p := x.engine(t, idem.Config{Attempt: time.Hour}), newParty()
	x.crash(t, x.under("a", 5), p)
	_, err := idem.Do(t.Context(), e, x.under("a", 5), func(context.Context, *idem.Op) (string, error) {
		t.Error("ran under the same epoch, while the attempt lasts")
		return "", nil
	})
	wantAs[*idem.InProgressError](t, err, cas.NotApplied)
	got, err := idem.Do(t.Context(), e, x.under("a", 6), func(ctx context.Context, op *idem.Op) (string, error) {
		if !op.Interrupted() {
			t.Error("Interrupted: got false")
		}
		s, err := idem.Step(ctx, op, "charge", func(context.Context, string) (string, error) {
			t.Error("a step that was recorded ran again")
			return "", nil
		})
		return s + "!", err
	})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := idem.Do(t.Context(), e, x.under("a", 4), func(context.Context, *idem.Op) (string, error) {
		t.Error("ran twice")
		return "", nil
	}); again != got || err != nil {
		t.Errorf("replay to an earlier owner: got %q, %v, want %q", again, err, got)
	}
	p.want(t, 1)

	// Another who was interrupted may not be run, whoever owns the shard.
	x.crash(t, x.under("b", 5), p)
	q := x.under("b", 6)
	q.Interrupted = idem.Block()
	_, err = idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (string, error) { return "", nil })
	wantAs[*idem.InterruptedError](t, err, cas.Uncertain)
}

// While a try of an earlier owner runs, one of a later owner takes over. From then on the earlier one
// can't record a step, nor finish, and its context ends.
func testLowerEpoch(t *testing.T, x *fixture) {
	old, e, p := x.engine(t, idem.Config{}), x.engine(t, idem.Config{}), newParty()
	for _, key := range []string{"finished", "running"} {
		inside, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		later := func() {
			defer close(done)
			got, err := idem.Do(t.Context(), e, x.under(key, 6), func(context.Context, *idem.Op) (string, error) {
				close(inside)
				<-release
				return "new", nil
			})
			if got != "new" || err != nil {
				t.Errorf("%s: the later owner: got %q, %v", key, got, err)
			}
		}
		got, err := idem.Do(t.Context(), old, x.under(key, 5), func(ctx context.Context, op *idem.Op) (string, error) {
			go later()
			<-inside
			if key == "finished" {
				close(release)
				<-done
			}
			_, err := idem.Step(ctx, op, "charge", p.charge)
			lost := wantAs[*idem.LostError](t, err, cas.Uncertain)
			if ctx.Err() == nil || context.Cause(ctx) != error(lost) {
				t.Errorf("%s: the context's cause: got %v, want the LostError", key, context.Cause(ctx))
			}
			_, err = idem.Step(ctx, op, "more", func(context.Context, string) (int, error) {
				t.Errorf("%s: a step ran after the loss", key)
				return 0, nil
			})
			wantAs[*idem.LostError](t, err, cas.Uncertain)
			return "old", nil
		})
		if key == "finished" {
			want(t, got, err, "new") // the result that counts
		} else {
			wantAs[*idem.LostError](t, err, cas.Uncertain)
			close(release)
			<-done
		}
	}
	p.want(t, 2)

	// It may not begin either, if nobody holds it, whoever else had it since.
	for _, q := range []idem.Request{x.under("open", 6), x.request("open")} {
		_, err := idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (string, error) {
			return "", idem.Undone(errBoom)
		})
		if !errors.Is(err, errBoom) {
			t.Error(err)
		}
	}
	_, err := idem.Do(t.Context(), old, x.under("open", 5), func(context.Context, *idem.Op) (string, error) {
		t.Error("an earlier owner ran")
		return "", nil
	})
	if s := wantAs[*idem.SupersededError](t, err, cas.NotApplied); s.Mine != token(5).Epoch || s.Current != token(6).Epoch {
		t.Errorf("got %+v", s)
	}
}

// A higher epoch of another group, or of another shard, says nothing.
func testOtherGroup(t *testing.T, x *fixture) {
	e, p := x.engine(t, idem.Config{}), newParty()
	x.crash(t, x.under("a", 5), p)
	for _, change := range []func(*idem.Request){
		func(q *idem.Request) { q.Token.GroupID = "other" },
		func(q *idem.Request) { q.Token.Group = "other" },
		func(q *idem.Request) { q.Token.Shard++ },
		func(q *idem.Request) { q.Token.Epoch = 0; q.Token.Group, q.Token.GroupID, q.Token.Shard = "", "", 0 },
	} {
		q := x.under("a", 6)
		change(&q)
		_, err := idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (string, error) {
			t.Errorf("ran under %s", q.Token)
			return "", nil
		})
		wantAs[*idem.InProgressError](t, err, cas.NotApplied)
	}
}

// fn may run for much longer than an attempt.
func testExtended(t *testing.T, x *fixture) {
	a, b := x.engine(t, idem.Config{}), x.engine(t, idem.Config{})
	runs := 0
	got, err := idem.Do(t.Context(), a, x.request("a"), func(ctx context.Context, op *idem.Op) (int, error) {
		for range 6 {
			select {
			case <-time.After(attempt / 2):
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
			_, err := idem.Do(ctx, b, x.request("a"), count(&runs, 2))
			wantAs[*idem.InProgressError](t, err, cas.NotApplied)
		}
		return idem.Step(ctx, op, "s", func(context.Context, string) (int, error) { return 1, nil })
	})
	want(t, got, err, 1)
	if runs != 0 {
		t.Error("ran twice at once")
	}
}

// Without a token, a crashed try keeps others out for the rest of its attempt and no longer.
func testCrashedTry(t *testing.T, x *fixture) {
	e, p := x.engine(t, idem.Config{}), newParty()
	x.crash(t, x.request("a"), p)
	run := func() (string, error) {
		return idem.Do(t.Context(), e, x.request("a"), func(ctx context.Context, op *idem.Op) (string, error) {
			return idem.Step(ctx, op, "charge", p.charge)
		})
	}
	_, err := run()
	if busy := wantAs[*idem.InProgressError](t, err, cas.NotApplied); busy.RetryAfter <= 0 || busy.RetryAfter > 2*attempt {
		t.Errorf("RetryAfter: got %s, want about %s", busy.RetryAfter, attempt)
	}
	x.elapse(t, 2*attempt, func() bool {
		_, err = run()
		return err == nil
	})
	p.want(t, 1)

	// Whoever waits gets it without asking again.
	x.crash(t, x.request("b"), p)
	q := x.request("b")
	q.Wait = patience
	if x.Elapse != nil {
		x.Elapse(t, 2*attempt)
	}
	got, err := idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (string, error) { return "waited", nil })
	want(t, got, err, "waited")
	x.crash(t, x.request("c"), p)
	q = x.request("c")
	q.Wait = patience
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = idem.Do(ctx, e, q, func(context.Context, *idem.Op) (string, error) { return "waited", nil })
	if !errors.Is(err, context.DeadlineExceeded) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("waiting beyond the context: got %v", err)
	}
}
