package writer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

// slow takes a second for a batch, and keeps to its context.
func slow(ctx context.Context, _ []*writer.Cmd[int, int]) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ends notes how tenures end.
func ends(into *[]owner.State) owner.Config {
	return owner.Config{Hooks: owner.Hooks{Tenure: func(ev owner.Event) {
		switch ev.State {
		case owner.HandedOff, owner.Forced, owner.Lost, owner.Failed:
			*into = append(*into, ev.State)
		}
	}}}
}

// A hand-off drains what goroutines outside of requests have queued, the batch under way included, and those who wait for
// room too; later ones are sent on.
func TestHandoff_Drains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended []owner.State
		r := start(t, 2, writer.Config{MaxBatch: 2, Queue: 2}, ends(&ended), slow)
		tn := r.Tenure(key)
		as := r.all(tn, 5)
		moved := make(chan struct{})
		go func() { defer close(moved); r.Move(key, 1-r.Owner(key)) }()
		<-tn.Draining()
		time.Sleep(10 * time.Millisecond) // nobody is inside, so the handler's context ends now
		r.wantError(r.do(t.Context(), tn, 6), 6, writer.ErrEnded, cas.NotApplied)
		r.wantError(r.do(t.Context(), tn, 7), 7, owner.ErrHandoff, cas.NotApplied)
		<-moved
		for i, a := range as {
			r.wantReply(a, i+1)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 4, 5}, r.committed()); diff != "" {
			t.Errorf("committed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]owner.State{owner.HandedOff}, ended); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
		r.wantReply(r.do(t.Context(), r.Tenure(key), 8), 8)
	})
}

// What can't be drained within Config.Drain is sent on, and the hand-off stays one in good order.
func TestHandoff_DrainEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended []owner.State
		r := start(t, 2, writer.Config{MaxBatch: 1, Drain: 2500 * time.Millisecond}, ends(&ended), slow)
		tn := r.Tenure(key)
		as := r.all(tn, 9)
		begun := time.Now()
		r.Move(key, 1-r.Owner(key))
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("the move took %v", took)
		}
		n := len(r.committed())
		if n < 2 || n > 4 {
			t.Errorf("%d batches were applied, want about 3", n)
		}
		for i, a := range as {
			if i < n {
				r.wantReply(a, i+1)
			} else {
				r.wantError(a, i+1, writer.ErrEnded, cas.NotApplied)
			}
		}
		if diff := cmp.Diff([]owner.State{owner.HandedOff}, ended); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
	})
}

// The parts of a batch that failed don't go on past Config.Drain either.
func TestHandoff_DrainEndsInASplit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended []owner.State
		r := start(t, 2, writer.Config{Drain: 2500 * time.Millisecond}, ends(&ended), func(ctx context.Context, batch []*writer.Cmd[int, int]) error {
			if err := slow(ctx, batch); err != nil {
				return err
			}
			return refuse(2)(ctx, batch)
		})
		as := r.all(r.Tenure(key), 9)
		r.Move(key, 1-r.Owner(key))
		r.wantReply(as[0], 1)
		for i, a := range as[1:] {
			r.wantError(a, i+2, writer.ErrEnded, cas.NotApplied)
		}
		if diff := cmp.Diff([]owner.State{owner.HandedOff}, ended); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
	})
}

// At loss those who are queued hear at once that they were not applied, even if Apply hangs; those of the batch what it
// returns: it may have been applied.
func TestLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hang := make(chan struct{})
		r := start(t, 2, writer.Config{Queue: 2}, owner.Config{}, func(ctx context.Context, batch []*writer.Cmd[int, int]) error {
			<-ctx.Done()
			<-hang
			return ctx.Err()
		})
		tn := r.Tenure(key)
		as := r.all(tn, 4) // in a batch, queued, queued, waiting for room
		r.Lose(key)
		<-tn.Context().Done()
		lost := time.Now()
		for i, a := range as[1:] {
			r.wantError(a, i+2, writer.ErrEnded, cas.NotApplied)
			if _, ok := errors.AsType[*owner.LostError](a.err); !ok {
				t.Errorf("got %v, want it to say why: a LostError", a.err)
			}
		}
		if took := time.Since(lost); took > 0 {
			t.Errorf("they heard of it after %v, want at once", took)
		}
		if !as[0].pending() {
			t.Error("the caller of the batch under way was told before Apply had returned")
		}
		close(hang)
		r.wantError(as[0], 1, context.Canceled, cas.Uncertain)
		if len(r.batches()) != 1 {
			t.Errorf("tries: %v, want one", r.batches())
		}
	})
}

// A batch that turns out applied, or not, after the loss is reported as what it is. It is not run again.
func TestLoss_BatchHasADefiniteEnd(t *testing.T) {
	for _, result := range []error{nil, writer.NotApplied(errBad)} {
		bubble(t, func(t *testing.T) {
			r := start(t, 2, writer.Config{}, owner.Config{}, func(ctx context.Context, _ []*writer.Cmd[int, int]) error {
				<-ctx.Done()
				return result
			})
			a := r.do(context.Background(), r.Tenure(key), 1)
			r.Lose(key)
			if result == nil {
				r.wantReply(a, 1)
			} else {
				r.wantError(a, 1, writer.ErrEnded, cas.NotApplied)
			}
			if len(r.batches()) != 1 {
				t.Errorf("tries: %v, want one", r.batches())
			}
		})
	}
}

// Past DrainTimeout the tenure is lost in the middle of the drain.
func TestHandoff_Overdue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended []owner.State
		oc := ends(&ended)
		oc.DrainTimeout = 1500 * time.Millisecond
		r := start(t, 2, writer.Config{MaxBatch: 1, Drain: time.Minute}, oc, slow)
		as := r.all(r.Tenure(key), 5)
		r.Move(key, 1-r.Owner(key))
		uncertain := 0
		for i, a := range as {
			<-a.ended
			switch {
			case a.err == nil && i < 2:
			case cas.OutcomeOf(a.err) == cas.Uncertain:
				uncertain++
			default:
				r.wantError(a, i+1, writer.ErrEnded, cas.NotApplied)
			}
		}
		if uncertain != 1 {
			t.Errorf("%d are uncertain, want the one of the batch under way", uncertain)
		}
	})
}

// I3: a process that was stopped begins no batch once its trust is over, although its node has not noticed yet.
func TestI3_NoBatchWithoutTrust(t *testing.T) {
	bubble(t, func(t *testing.T) {
		two := shard.Group{Name: "rig", Shards: 2}
		keys := [2]string{} // of each shard
		for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
			keys[two.Of(k)] = k
		}
		stuck := make(chan struct{})
		free := sync.OnceFunc(func() { close(stuck) })
		defer free()
		w, applied := newCounting(t, func(ev owner.Event) bool { return ev.State == owner.Failed && ev.Token.Shard == 1 }, stuck)
		c := w.start(t, two)
		tn, other := c.Tenure(keys[0]), c.Tenure(keys[1])
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := w.w.Do(context.Background(), tn, 1); first <- err }()
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		other.Fail(errBad) // and the loop hangs in the hook that it calls for it
		time.Sleep(10 * time.Second)
		if tn.Context().Err() != nil {
			t.Fatal("the loop did not hang")
		}
		go func() { _, err := w.w.Do(context.Background(), tn, 2); second <- err }()
		time.Sleep(time.Second)
		if got := applied.Load(); got != 1 {
			t.Errorf("%d batches were begun, want 1: trust is over", got)
		}
		free()
		if err := <-second; !errors.Is(err, writer.ErrEnded) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v, want ErrEnded", err)
		}
	})
}
