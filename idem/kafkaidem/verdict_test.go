package kafkaidem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// fn may have operations inside. What idem says of one of those is fn's error, and not the record's fate.
func TestDo_NestedErrors(t *testing.T) {
	for what, inner := range map[string]error{
		"its result was too large": &idem.TooLargeError{Size: 2},
		"it was interrupted":       &idem.InterruptedError{Key: "alice"},
		"it has expired":           &idem.ExpiredError{},
		"it has failed for good":   &idem.FailedError{Message: "no"},
		"it is another's":          &idem.SupersededError{},
	} {
		e, _ := newEngine(t, idem.Config{})
		x := effect{err: inner}
		wantRetry(t, Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn), inner)
		x.err = nil
		if err := Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn); err != nil || x.runs != 2 {
			t.Errorf("%s: tried again: got %v after %d runs, want nil after 2", what, err, x.runs)
		}
	}
}

// The inner operation is done, and its result can't be given again: that the record's own effect is missing must not be lost in this.
func TestDo_NestedResultIsGone(t *testing.T) {
	e, _ := newEngine(t, idem.Config{MaxResult: 100})
	mails, crash := 0, true
	fn := func(ctx context.Context, _ *idem.Op) error {
		_, err := idem.Do(ctx, e, idem.Request{Scope: "customers", Key: "alice"}, func(context.Context, *idem.Op) (string, error) {
			return strings.Repeat("x", 1000), nil
		})
		switch {
		case err != nil:
			return err
		case crash:
			return errBoom
		}
		mails++
		return nil
	}
	wantRetry(t, Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), fn), errBoom)
	crash = false
	err := Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), fn)
	if _, large := errors.AsType[*idem.TooLargeError](err); !large || cas.OutcomeOf(err) != cas.NotApplied || mails != 0 {
		t.Errorf("got %v (%s) and %d mails, want the TooLargeError, marked by NotApplied", err, cas.OutcomeOf(err), mails)
	}
}

// A step that ends the operation, in the commit of its effect: nobody gets its result, so another type than Do's is none of our business.
func TestDo_LastStep(t *testing.T) {
	e, _ := newEngine(t, idem.Config{})
	booked := 0
	fn := func(ctx context.Context, op *idem.Op) error {
		_, err := idem.StepIn(ctx, op, "book", true, func(ctx context.Context, x idem.Txn) (int64, error) {
			p, err := x.Run()
			if err != nil {
				return 0, err
			}
			return e.Store().Swap(ctx, x.ID, x.Rev, p)
		}, func() (int, error) { booked++; return 17, nil })
		return err
	}
	for revision := int64(5); revision < 8; revision++ {
		if err := Do(t.Context(), e, token(t, revision), record(1, "x", "k1"), fn); err != nil || booked != 1 {
			t.Errorf("under revision %d: got %v, booked %d times; want nil, once", revision, err, booked)
		}
	}
}

// Reconcile's function could not find out: fn has not run, and the question is asked again, in this tenure.
func TestDo_ReconcileFails(t *testing.T) {
	for what, cause := range map[string]error{
		"the provider does not answer":  errBoom,
		"another operation has expired": fmt.Errorf("looking: %w", &idem.TooLargeError{Size: 2}), // which is applied
	} {
		e, _ := newEngine(t, idem.Config{})
		x := effect{err: errBoom}
		wantRetry(t, Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn), errBoom)
		asked := 0
		reconcile := func(q *idem.Request) {
			q.Interrupted = idem.Reconcile(func(context.Context, *idem.Op) (struct{}, bool, error) {
				asked++
				if asked == 1 {
					return struct{}{}, false, cause
				}
				return struct{}{}, true, nil
			})
		}
		wantRetry(t, Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn, reconcile), cause)
		if err := Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn, reconcile); err != nil || asked != 2 || x.runs != 1 {
			t.Errorf("%s: asked again: got %v, asked %d times, fn ran %d times; want nil, 2, 1", what, err, asked, x.runs)
		}
	}
	e, _ := newEngine(t, idem.Config{})
	x := effect{err: errBoom}
	wantRetry(t, Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn), errBoom)
	err := Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn, func(q *idem.Request) {
		q.Interrupted = idem.Reconcile(func(context.Context, *idem.Op) (struct{}, bool, error) {
			return struct{}{}, false, &idem.FinishError{Err: errBoom}
		})
	})
	if cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("a step of Reconcile's function may not have been recorded: got %v (%s), want uncertain", err, cas.OutcomeOf(err))
	}
}

// A hand-off that waited for another try would be forced in the end, and all that for nothing: the next owner takes over at once.
func TestDo_DoesNotHoldUpAHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, kv := newEngine(t, idem.Config{})
		inside, leave := make(chan struct{}), make(chan struct{})
		began, ended, other := make(chan struct{}), make(chan error, 1), make(chan struct{})
		var took, slow time.Duration
		var late error
		var x effect
		group := shard.Single("orders")
		n, err := owner.New(kv, group, func(ctx context.Context, tn *owner.Tenure) error {
			tn.Ready()
			go func() {
				defer close(other)
				_ = Do(context.WithoutCancel(ctx), e, tn.Token(), record(1, "x", "k1"), func(context.Context, *idem.Op) error {
					close(inside)
					<-leave
					return nil
				})
			}()
			<-inside
			close(began)
			drained := make(chan time.Time, 1)
			go func() { <-tn.Draining(); drained <- time.Now() }()
			err := Do(tn.Context(), e, tn.Token(), record(2, "x", "k1"), x.fn)
			took = time.Since(<-drained)
			ended <- err
			// What is begun is waited for.
			from := time.Now()
			late = Do(tn.Context(), e, tn.Token(), record(3, "x", "k2"), func(ctx context.Context, _ *idem.Op) error {
				time.Sleep(3 * grace)
				return ctx.Err()
			})
			slow = time.Since(from)
			return nil
		}, owner.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = n.Run(ctx) }()
		<-began
		stop()
		err = <-ended
		if cas.OutcomeOf(err) != cas.NotApplied || !errors.Is(err, errDraining) || took < grace || took > 2*grace {
			t.Errorf("waiting for another try: got %v (%s), %v after the hand-off began; want %v after %v", err, cas.OutcomeOf(err), took, errDraining, grace)
		}
		<-done
		close(leave)
		<-other
		wantRuns(t, x, 0)
		if late != nil || slow < 3*grace {
			t.Errorf("what is begun during a hand-off: got %v after %v, want nil after %v", late, slow, 3*grace)
		}
	})
}

// slow is a store whose writes take long, whatever becomes of those who wait for them.
type slow struct{ idem.Store }

func (s slow) Swap(ctx context.Context, id string, rev int64, p idem.Put) (int64, error) {
	time.Sleep(3 * grace)
	return s.Store.Swap(context.WithoutCancel(ctx), id, rev, p)
}

// An operation that is claimed only when its time is up is not begun: its context has ended, and half an effect is worse than none.
func TestDo_BeginsNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, kv := newEngine(t, idem.Config{})
		e, err := idem.New(slow{idem.OnCAS(kv, "")}, idem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var x effect
		ended := make(chan error, 1)
		ready := make(chan struct{})
		n, err := owner.New(kv, shard.Single("orders"), func(_ context.Context, tn *owner.Tenure) error {
			tn.Ready()
			close(ready)
			<-tn.Draining()
			ended <- Do(tn.Context(), e, tn.Token(), record(1, "x", "k1"), x.fn)
			return nil
		}, owner.Config{DrainTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = n.Run(ctx) }()
		<-ready
		stop()
		if err := <-ended; cas.OutcomeOf(err) != cas.NotApplied || !errors.Is(err, errDraining) {
			t.Errorf("got %v (%s), want %v, not applied", err, cas.OutcomeOf(err), errDraining)
		}
		<-done
		wantRuns(t, x, 0)
	})
}

// What is not known of an error of Do is open once fn has run.
func TestVerdict_Unknown(t *testing.T) {
	for ran, want := range map[bool]cas.Outcome{true: cas.Uncertain, false: cas.NotApplied} {
		if got := cas.OutcomeOf(verdict(token(t, 5), record(1, "x"), errBoom, ran)); got != want {
			t.Errorf("fn has run: %t: got %s, want %s", ran, got, want)
		}
	}
}
