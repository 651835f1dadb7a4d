package idem_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
)

// pair is two processes with one store.
type pair struct {
	a, b *memkv.Client
	ea   *idem.Engine
	eb   *idem.Engine
}

func newPair(t *testing.T, c idem.Config) *pair {
	t.Helper()
	server := memkv.NewServer(memkv.Config{})
	p := &pair{a: server.Client(), b: server.Client()}
	t.Cleanup(func() {
		_ = p.a.Close()
		_ = p.b.Close()
	})
	var err error
	if p.ea, err = idem.New(idem.OnCAS(p.a, ""), c); err != nil {
		t.Fatal(err)
	}
	if p.eb, err = idem.New(idem.OnCAS(p.b, ""), c); err != nil {
		t.Fatal(err)
	}
	return p
}

// ended waits for ctx to end, within an hour.
func ended(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(time.Hour):
		t.Error("fn's context has not ended within an hour")
	}
}

// fn that records nothing meanwhile learns all the same that it was taken over from, within a third of an attempt.
func TestTakeoverEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, idem.Config{Attempt: time.Minute})
		q := idem.Request{Scope: "a", Key: "k", Token: token(5)}
		_, err := idem.Do(t.Context(), p.ea, q, func(ctx context.Context, _ *idem.Op) (int, error) {
			later := q
			later.Token = token(6)
			if _, err := idem.Do(t.Context(), p.eb, later, func(context.Context, *idem.Op) (int, error) { return 0, errors.New("boom") }); err == nil {
				t.Error("the later owner: got nil")
			}
			begun := time.Now()
			ended(t, ctx)
			if _, ok := errors.AsType[*idem.LostError](context.Cause(ctx)); !ok {
				t.Errorf("cause: got %v, want a LostError", context.Cause(ctx))
			}
			if took := time.Since(begun); took > 21*time.Second {
				t.Errorf("it took %s, want a third of the attempt", took)
			}
			return 0, ctx.Err()
		})
		if lost, ok := errors.AsType[*idem.LostError](err); !ok || !errors.Is(lost, context.Canceled) || cas.OutcomeOf(err) != cas.Uncertain {
			t.Errorf("got %v, want a LostError that wraps fn's", err)
		}
	})
}

// A try that can't extend its attempt stops when others may begin, and not later.
func TestAttemptEndsWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, idem.Config{Attempt: time.Minute})
		q := idem.Request{Scope: "a", Key: "k"}
		begun := time.Now()
		_, err := idem.Do(t.Context(), p.ea, q, func(ctx context.Context, _ *idem.Op) (int, error) {
			p.a.Cut(true)
			ended(t, ctx)
			if took := time.Since(begun); took < 59*time.Second || took > 61*time.Second {
				t.Errorf("fn's context ended after %s, want the attempt's minute", took)
			}
			_, err := idem.Do(t.Context(), p.eb, q, func(context.Context, *idem.Op) (int, error) { return 2, nil })
			if _, busy := errors.AsType[*idem.InProgressError](err); err != nil && !busy {
				t.Errorf("the other: got %v", err)
			}
			return 0, ctx.Err()
		})
		if _, ok := errors.AsType[*idem.LostError](err); !ok {
			t.Errorf("got %v, want a LostError", err)
		}
		time.Sleep(time.Minute) // the store rounds an attempt up to half as much again
		if got, err := idem.Do(t.Context(), p.eb, q, func(context.Context, *idem.Op) (int, error) { return 2, nil }); got != 2 || err != nil {
			t.Errorf("then: got %d, %v, want 2", got, err)
		}
	})
}

// A short outage of the store in the middle of an attempt ends nothing.
func TestAttemptOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, idem.Config{Attempt: time.Minute})
		got, err := idem.Do(t.Context(), p.ea, idem.Request{Scope: "a", Key: "k"}, func(ctx context.Context, _ *idem.Op) (int, error) {
			for range 5 {
				p.a.Cut(true)
				time.Sleep(30 * time.Second)
				p.a.Cut(false)
				time.Sleep(30 * time.Second)
			}
			return 1, context.Cause(ctx)
		})
		if got != 1 || err != nil {
			t.Errorf("got %d, %v, want 1", got, err)
		}
	})
}

// A step's record was thought to be lost, and was applied. The try goes on from it, and does not take its own
// record for another's.
func TestStepThatWasRecordedAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, idem.Config{Finish: 4 * time.Second})
		q := idem.Request{Scope: "a", Key: "k"}
		away := false
		runs := 0
		fates(p.a, func(commit int) memkv.Fate {
			switch {
			case commit == 2:
				away = true
				return memkv.Fate{Loss: memkv.Reply}
			case away:
				return memkv.Fate{Loss: memkv.Connection}
			}
			return memkv.Fate{}
		})
		got, err := idem.Do(t.Context(), p.ea, q, func(ctx context.Context, op *idem.Op) (int, error) {
			step := func(name string) (int, error) {
				return idem.Step(ctx, op, name, func(context.Context, string) (int, error) { runs++; return runs, nil })
			}
			_, err := step("a")
			if _, ok := errors.AsType[*idem.FinishError](err); !ok || cas.OutcomeOf(err) != cas.Uncertain {
				t.Errorf("while the store is away: got %v, want a FinishError", err)
			}
			away = false
			if n, err := step("b"); n != 2 || err != nil {
				t.Errorf("the next step: got %d, %v", n, err)
			}
			return step("a")
		})
		if got != 1 || err != nil || runs != 2 {
			t.Errorf("got %d, %v, %d steps run, want 1 and 2", got, err, runs)
		}
	})
}

// A step's write has come to the store, and its reply hangs. The attempt ends when that write says, unless it is extended further:
// that the record is this try's own is not enough.
func TestAttemptIsExtendedBesideAWriteThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, idem.Config{Attempt: 3 * time.Second, Finish: time.Minute})
		q := idem.Request{Scope: "a", Key: "k"}
		var hung atomic.Bool
		got, err := idem.Do(t.Context(), p.ea, q, func(ctx context.Context, op *idem.Op) (int, error) {
			p.a.Intercept(func(c memkv.Call) memkv.Fate {
				if c.Kind != memkv.Commit || !hung.CompareAndSwap(false, true) {
					return memkv.Fate{}
				}
				return memkv.Fate{Loss: memkv.Reply, Hang: true}
			})
			go func() {
				time.Sleep(10 * time.Second) // an attempt in this store lasts at most half as long again
				_, err := idem.Do(t.Context(), p.eb, q, func(context.Context, *idem.Op) (int, error) { return 2, nil })
				if _, busy := errors.AsType[*idem.InProgressError](err); !busy {
					t.Errorf("another try meanwhile: got %v, want an InProgressError", err)
				}
			}()
			n, err := idem.Step(ctx, op, "step", func(context.Context, string) (int, error) { return 1, nil })
			if time.Sleep(time.Second); ctx.Err() != nil {
				t.Errorf("fn's context: got %v, want it to last", context.Cause(ctx))
			}
			return n, err
		})
		if got != 1 || err != nil || !hung.Load() {
			t.Errorf("got %d, %v, a write hung: %t; want 1", got, err, hung.Load())
		}
	})
}
