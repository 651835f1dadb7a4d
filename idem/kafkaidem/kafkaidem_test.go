package kafkaidem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

func newEngine(t *testing.T, c idem.Config) (*idem.Engine, *memkv.Client) {
	t.Helper()
	kv := memkv.New()
	t.Cleanup(func() { _ = kv.Close() })
	e, err := idem.New(idem.OnCAS(kv, ""), c)
	if err != nil {
		t.Fatal(err)
	}
	return e, kv
}

func token(t *testing.T, revision int64) shard.Token {
	t.Helper()
	epoch, err := shard.NewEpoch(1, revision)
	if err != nil {
		t.Fatal(err)
	}
	return shard.Token{Group: "orders", GroupID: "q6c5", Shard: 3, Epoch: epoch}
}

// effect is what fn has, which returns err.
type effect struct {
	runs int
	err  error
}

func (e *effect) fn(context.Context, *idem.Op) error { e.runs++; return e.err }

func wantBad(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*kafka.BadRecordError](err); !ok || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s), want a BadRecordError", err, cas.OutcomeOf(err))
	}
}

func wantRetry(t *testing.T, err, cause error) {
	t.Helper()
	_, bad := errors.AsType[*kafka.BadRecordError](err)
	if bad || !errors.Is(err, cause) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s), want %v marked by NotApplied", err, cas.OutcomeOf(err), cause)
	}
}

func wantRuns(t *testing.T, x effect, n int) {
	t.Helper()
	if x.runs != n {
		t.Errorf("the function ran %d times, want %d", x.runs, n)
	}
}

var errBoom = errors.New("boom")

func TestDo_OncePerHeader(t *testing.T) {
	e, _ := newEngine(t, idem.Config{})
	var x effect
	for offset := range int64(3) {
		if err := Do(t.Context(), e, token(t, 5+offset), record(offset, "x", "k1"), x.fn); err != nil {
			t.Fatal(err)
		}
	}
	wantRuns(t, x, 1)
	if err := Do(t.Context(), e, token(t, 8), record(3, "x", "k2"), x.fn); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, x, 2)
	wantBad(t, Do(t.Context(), e, token(t, 8), record(4, "another value", "k1"), x.fn))
	wantRuns(t, x, 2)
}

// A record that fails is tried again; one that has failed for good is put away, each time that it is delivered.
func TestDo_Failures(t *testing.T) {
	e, _ := newEngine(t, idem.Config{})
	x := effect{err: errBoom}
	for range 2 {
		wantRetry(t, Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn), errBoom)
	}
	wantRuns(t, x, 2)
	x.err = idem.Final(errBoom)
	for range 2 {
		wantBad(t, Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn))
	}
	wantRuns(t, x, 3)

	x = effect{err: errBoom}
	block := func(q *idem.Request) { q.Interrupted = idem.Block() }
	wantRetry(t, Do(t.Context(), e, token(t, 5), record(2, "x", "k2"), x.fn, block), errBoom)
	wantBad(t, Do(t.Context(), e, token(t, 5), record(2, "x", "k2"), x.fn, block))
	wantRuns(t, x, 1)
}

// An owner that was replaced ends its tenure: to try again, or to put the record away, would be wrong.
func TestDo_Superseded(t *testing.T) {
	e, _ := newEngine(t, idem.Config{})
	x := effect{err: errBoom}
	wantRetry(t, Do(t.Context(), e, token(t, 6), record(1, "x", "k1"), x.fn), errBoom)
	err := Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), x.fn)
	lost, ok := errors.AsType[*owner.LostError](err)
	if !ok || lost.Token != token(t, 5) || cas.OutcomeOf(err) == cas.NotApplied {
		t.Errorf("got %v (%s), want an owner.LostError", err, cas.OutcomeOf(err))
	}
	wantRuns(t, x, 1)
}

// What may not have been recorded is for the next tenure, which takes over at once.
func TestDo_Unrecorded(t *testing.T) {
	for name, inStep := range map[string]bool{"the step": true, "the result": false} {
		synctest.Test(t, func(t *testing.T) {
			e, kv := newEngine(t, idem.Config{})
			charged := make(map[string]int)
			charge := func(_ context.Context, key string) (int, error) { charged[key]++; return 1, nil }
			cut := func() {
				kv.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: memkv.Connection} })
			}
			err := Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), func(ctx context.Context, op *idem.Op) error {
				if inStep {
					cut()
				}
				_, err := idem.Step(ctx, op, "charge", charge)
				cut()
				if err != nil {
					err = fmt.Errorf("charging: %w", err)
				}
				return err
			})
			if _, ok := errors.AsType[*idem.FinishError](err); !ok || cas.OutcomeOf(err) != cas.Uncertain {
				t.Errorf("%s is not recorded: got %v (%s), want a FinishError, uncertain", name, err, cas.OutcomeOf(err))
			}
			kv.Intercept(nil)
			began := time.Now()
			err = Do(t.Context(), e, token(t, 6), record(1, "x", "k1"), func(ctx context.Context, op *idem.Op) error {
				_, err := idem.Step(ctx, op, "charge", charge)
				return err
			})
			if err != nil || time.Since(began) != 0 || len(charged) != 1 {
				t.Errorf("the next owner: got %v after %v, and %d keys; want it to take over at once, under the same key", err, time.Since(began), len(charged))
			}
		})
	}
}

// In the same tenure a crashed try is waited for. Later the record is done, even if that is all that is known.
func TestDo_WaitsAndExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newEngine(t, idem.Config{Keep: time.Hour})
		inside, leave := make(chan struct{}), make(chan struct{})
		done := make(chan error)
		go func() {
			done <- Do(t.Context(), e, token(t, 5), record(1, "x", "k1"), func(context.Context, *idem.Op) error {
				close(inside)
				<-leave
				return nil
			})
		}()
		<-inside
		var x effect
		err := Do(t.Context(), e, token(t, 5), record(2, "x", "k1"), x.fn)
		if _, busy := errors.AsType[*idem.InProgressError](err); !busy || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("another try, for longer than %v: got %v, want an InProgressError", wait, err)
		}
		time.AfterFunc(wait/2, func() { close(leave) })
		if err := Do(t.Context(), e, token(t, 5), record(2, "x", "k1"), x.fn); err != nil {
			t.Errorf("another try that ends in time: got %v", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		if err := Do(t.Context(), e, token(t, 5), record(3, "x", "k1"), x.fn); err != nil {
			t.Errorf("once the result has expired: got %v, want nil, because it is done", err)
		}
		wantRuns(t, x, 0)
	})
}
