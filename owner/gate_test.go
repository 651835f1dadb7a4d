package owner

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/owner/internal/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestI3_GateRefusesByClock: no goroutine has to run for a gate to refuse, only time to pass.
func TestI3_GateRefusesByClock(t *testing.T) {
	n, tn := open(t)
	if !tn.admit() {
		t.Fatal("an open gate with trust refused")
	}
	tn.leave()
	n.trust.Store(int64(n.clock.Now()))
	if tn.admit() {
		t.Error("a gate admitted after trust had ended")
	}
	if got := tn.gate.inside(); got != 0 {
		t.Errorf("inside after a refusal: got %d, want 0", got)
	}
	if _, ok := errors.AsType[*LostError](tn.Err()); !ok {
		t.Errorf("Err after trust had ended: got %v, want a LostError", tn.Err())
	}
}

func TestI5_ClosedGateNeverReopens(t *testing.T) {
	var g gate
	if g.enter() {
		t.Fatal("a gate that was never opened admitted")
	}
	g.open()
	if !g.enter() {
		t.Fatal("an open gate refused")
	}
	if first, empty := g.close(); !first || empty {
		t.Errorf("close with one inside: got first %v, empty %v, want true, false", first, empty)
	}
	g.open()
	if g.enter() {
		t.Error("a closed gate was opened again")
	}
	if first, _ := g.close(); first {
		t.Error("a second close says it was the first")
	}
	if !g.exit() {
		t.Error("the last one's exit did not say that the gate is empty")
	}
}

// TestI5_EmptyIsReportedOnce: whoever brings the closed gate to zero says so, once, whatever the order.
func TestI5_EmptyIsReportedOnce(t *testing.T) {
	for range 500 {
		var g gate
		var empties atomic.Int32
		var inside atomic.Int32
		g.open()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for g.enter() {
					inside.Add(1)
					runtime.Gosched()
					inside.Add(-1)
					if g.exit() {
						empties.Add(1)
						if n := inside.Load(); n != 0 {
							t.Errorf("reported empty with %d inside", n)
						}
					}
				}
			})
		}
		all.Go(func() {
			runtime.Gosched()
			if _, empty := g.close(); empty {
				empties.Add(1)
				if n := inside.Load(); n != 0 {
					t.Errorf("reported empty with %d inside", n)
				}
			}
		})
		all.Wait()
		if got := empties.Load(); got != 1 {
			t.Fatalf("reports that the gate is empty: got %d, want 1", got)
		}
	}
}

func TestGateAllocatesNothing(t *testing.T) {
	_, tn := open(t)
	if got := testing.AllocsPerRun(100, func() {
		if tn.admit() {
			tn.leave()
		}
	}); got != 0 {
		t.Errorf("allocations of entering and leaving: got %v, want 0", got)
	}
}

func TestEnterNested(t *testing.T) {
	n, tn := open(t)
	const key = "account-00000001"
	outer, exit, err := n.Enter(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	tn.shut() // a hand-off begins
	_, exitInner, err := n.Enter(outer, key)
	if err != nil {
		t.Fatalf("a call inside an admitted one, while the shard drains: got %v, want it let in", err)
	}
	exit()
	exit() // once more does no harm
	if err := outer.Err(); err == nil {
		t.Error("the context of an exited call still lives")
	}
	if got := tn.gate.inside(); got != 1 {
		t.Errorf("inside while the nested call runs: got %d, want 1", got)
	}
	if got := n.mail.take(nil); len(got) != 0 {
		t.Errorf("reported %v while the nested call runs", got)
	}
	exitInner()
	got := n.mail.take(nil)
	if want := (machine.Drained{Shard: tn.token.Shard, Epoch: tn.token.Epoch}); len(got) != 1 || got[0] != want {
		t.Errorf("mail after the last exit: got %v, want %v", got, want)
	}
	// A context that has leaked out of its call opens nothing.
	n.config.WaitTimeout = time.Millisecond
	if _, _, err := n.Enter(outer, key); err == nil {
		t.Error("a leaked context was let in")
	}
}

func TestEnterFromHandler(t *testing.T) {
	n, tn := open(t)
	const key = "account-00000001"
	tn.shut()
	_, exit, err := n.Enter(tn.work, key)
	if err != nil {
		t.Fatalf("a call of the handler's own while its shard drains: got %v, want it let in", err)
	}
	exit()
	tn.stopWork(ErrHandoff)
	start := time.Now()
	_, _, err = n.Enter(tn.ctx, key)
	if !errors.Is(err, ErrBusy) {
		t.Errorf("a call of an ending handler's: got %v, want ErrBusy", err)
	}
	if waited := time.Since(start); waited >= n.config.WaitTimeout {
		t.Errorf("it waited %v for itself", waited)
	}
}

func TestFrom(t *testing.T) {
	n, tn := open(t)
	if _, err := From(t.Context()); !errors.Is(err, ErrNoTenure) {
		t.Errorf("From a bare context: got %v, want ErrNoTenure", err)
	}
	if got := TokenFrom(t.Context()); !got.IsZero() {
		t.Errorf("TokenFrom a bare context: got %v, want the zero Token", got)
	}
	err := n.Do(t.Context(), "account-00000001", func(ctx context.Context, _ *Tenure) error {
		got, err := From(ctx)
		if got != tn || err != nil {
			t.Errorf("From inside Do: got %v, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
