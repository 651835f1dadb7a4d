package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func token(revision int64) shard.Token {
	return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: 33<<48 | shard.Epoch(revision)}
}

func wantFenced(t *testing.T, err error, mine, current shard.Token) {
	t.Helper()
	e, ok := errors.AsType[*fence.FencedError](err)
	if !ok || e.Mine != mine.Epoch || e.Current != current.Epoch {
		t.Errorf("got %v, want FencedError of %s by %s", err, mine.Epoch, current.Epoch)
	}
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
}

func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
}

func TestI6_GateDemandsEquality(t *testing.T) {
	var g fence.Gate
	ran := 0
	do := func(tok shard.Token) error { return g.Do(tok, func() error { ran++; return nil }) }
	wantIs(t, do(token(5)), fence.ErrNotSealed) // as after a restart
	for range 2 {
		if err := g.Seal(t.Context(), token(5)); err != nil {
			t.Fatal(err)
		}
	}
	if err := do(token(5)); err != nil {
		t.Error(err)
	}
	wantFenced(t, do(token(4)), token(4), token(5))
	wantFenced(t, g.Seal(t.Context(), token(4)), token(4), token(5))
	wantIs(t, do(token(6)), fence.ErrNotSealed)
	other := token(5)
	other.Shard = 8
	wantIs(t, do(other), fence.ErrNotSealed)
	other = token(5)
	other.Group = "orders"
	wantIs(t, do(other), fence.ErrNotSealed)

	foreign := token(6)
	foreign.GroupID = "0cc175b9"
	for _, err := range []error{g.Seal(t.Context(), foreign), do(foreign)} {
		e, ok := errors.AsType[*fence.GroupError](err)
		want := fence.GroupError{Group: "accounts", Shard: 7, Mine: "0cc175b9", Theirs: "9f86d081"}
		if !ok || *e != want {
			t.Errorf("got %v, want a GroupError", err)
		}
	}
	wantIs(t, do(shard.Token{}), fence.ErrToken)
	wantIs(t, g.Seal(t.Context(), shard.Token{}), fence.ErrToken)

	if err := g.Seal(t.Context(), token(6)); err != nil {
		t.Fatal(err)
	}
	wantFenced(t, do(token(5)), token(5), token(6))
	if err := do(token(6)); err != nil {
		t.Error(err)
	}
	if ran != 2 {
		t.Errorf("fn ran %d times, want 2", ran)
	}
	boom := errors.New("boom")
	if err := g.Do(token(6), func() error { return boom }); err != boom {
		t.Errorf("got %v, want what fn returned", err)
	}
}

func TestI6_GateSealWaitsForRunningCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		if err := g.Seal(t.Context(), token(1)); err != nil {
			t.Fatal(err)
		}
		finish := make(chan struct{})
		for range 3 {
			go func() {
				err := g.Do(token(1), func() error {
					<-finish
					// A call inside the call: refused, not waited for, for it would wait for itself.
					wantFenced(t, g.Do(token(1), func() error { return nil }), token(1), token(3))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()

		var returned atomic.Int64
		results := make([]error, 4)
		var wg sync.WaitGroup
		seal := func(revision int64) {
			wg.Go(func() { results[revision] = g.Seal(t.Context(), token(revision)); returned.Add(1) })
			synctest.Wait()
		}
		seal(2)
		seal(3)
		if n := returned.Load(); n != 0 {
			t.Errorf("%d seals returned while calls under an older epoch ran", n)
		}
		wantFenced(t, g.Do(token(1), func() error { return nil }), token(1), token(3)) // no newcomers meanwhile
		wantIs(t, g.Do(token(3), func() error { return nil }), fence.ErrNotSealed)
		close(finish)
		wg.Wait()
		wantFenced(t, results[2], token(2), token(3))
		if results[3] != nil {
			t.Error(results[3])
		}
		if err := g.Do(token(3), func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// A Seal that gives up has shut out the older owner all the same, and can be called again.
func TestI6_GateSealEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		if err := g.Seal(t.Context(), token(1)); err != nil {
			t.Fatal(err)
		}
		finish := make(chan struct{})
		stuck := make(chan error, 1)
		go func() { stuck <- g.Do(token(1), func() error { <-finish; return nil }) }()
		synctest.Wait()

		because := errors.New("because")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, because)
		defer cancel()
		start := time.Now()
		wantIs(t, g.Seal(ctx, token(2)), because)
		if took := time.Since(start); took != time.Second {
			t.Errorf("Seal took %s, want it to end with its context", took)
		}
		wantFenced(t, g.Do(token(1), func() error { return nil }), token(1), token(2))
		wantFenced(t, g.Seal(t.Context(), token(1)), token(1), token(2))
		wantIs(t, g.Do(token(2), func() error { return nil }), fence.ErrNotSealed)

		sealed := make(chan error, 1)
		go func() { sealed <- g.Seal(t.Context(), token(2)) }()
		synctest.Wait()
		select {
		case err := <-sealed:
			t.Errorf("Seal returned %v while a call under an older epoch ran", err)
		default:
		}
		close(finish)
		if err := <-sealed; err != nil {
			t.Error(err)
		}
		if err := <-stuck; err != nil {
			t.Error(err)
		}
		if err := g.Do(token(2), func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

func TestGatePanicLeaves(t *testing.T) {
	var g fence.Gate
	if err := g.Seal(t.Context(), token(1)); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v, want boom", got)
			}
		}()
		_ = g.Do(token(1), func() error { panic("boom") })
	}()
	if err := g.Seal(t.Context(), token(2)); err != nil { // would wait for ever
		t.Fatal(err)
	}
}

// Whatever the order, no call runs under another epoch than the highest that a Seal has returned.
func TestI6_GateRace(t *testing.T) {
	var g fence.Gate
	var sealed atomic.Int64
	var wg sync.WaitGroup
	const epochs = 40
	for _, n := range rand.Perm(epochs) {
		revision := int64(n + 1)
		wg.Go(func() {
			if g.Seal(t.Context(), token(revision)) == nil {
				for {
					old := sealed.Load()
					if old >= revision || sealed.CompareAndSwap(old, revision) {
						break
					}
				}
			}
			for range 50 {
				_ = g.Do(token(revision), func() error {
					if now := sealed.Load(); now > revision {
						t.Errorf("fn runs under %d after %d was sealed", revision, now)
					}
					return nil
				})
			}
		})
	}
	wg.Wait()
	if got := sealed.Load(); got != epochs {
		t.Errorf("sealed: got %d, want %d", got, epochs)
	}
}

func BenchmarkGateDo(b *testing.B) {
	var g fence.Gate
	if err := g.Seal(b.Context(), token(1)); err != nil {
		b.Fatal(err)
	}
	fn := func() error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Do(token(1), fn); err != nil {
			b.Fatal(err)
		}
	}
}
