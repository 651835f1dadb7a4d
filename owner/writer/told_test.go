package writer_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/writer"
)

// slowRefusal is a fence's refusal that is slow to say what it is: whoever waits for no more than the end of its context has
// gone by then.
type slowRefusal struct{ *fence.FencedError }

func (e *slowRefusal) Unwrap() error { return e.FencedError }
func (e *slowRefusal) Outcome() cas.Outcome {
	time.Sleep(time.Second)
	return e.FencedError.Outcome()
}

// in is do in a request, whose context ends with the tenure.
func (r *rig) in(v int) *answer {
	a := &answer{ended: make(chan struct{})}
	node := r.Nodes[r.Owner(key)]
	go func() {
		defer close(a.ended)
		err := node.Do(r.t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
			a.reply, a.err = r.w.Do(ctx, tn, v)
			return nil
		})
		if err != nil {
			r.t.Errorf("Do(%d) was not let in: %v", v, err)
		}
	}()
	synctest.Wait()
	return a
}

// Giving the tenure up ends the contexts of all requests. Their commands were certainly not applied, and that is what they
// hear, not that they gave up in the middle.
func TestApplyErrors_InARequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		r := start(t, 1, writer.Config{MaxBatch: 3}, owner.Config{}, func(_ context.Context, batch []*writer.Cmd[int, int]) error {
			<-g
			if slices.ContainsFunc(batch, func(c *writer.Cmd[int, int]) bool { return c.Value == 2 }) {
				return &slowRefusal{&fence.FencedError{Mine: 1, Current: 2}}
			}
			return nil
		})
		as := []*answer{r.in(1), r.in(2), r.in(3), r.in(4), r.in(5)} // alone, in the batch, and queued
		close(g)
		r.wantReply(as[0], 1)
		for i, a := range as[1:] {
			r.wantError(a, i+2, writer.ErrEnded, cas.NotApplied)
		}
		synctest.Wait()
		r.Settle()
	})
}

// The parts of a batch that were not begun when the tenure was given up are not in the middle of anything.
func TestApplyErrors_InARequestAfterASplit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, tries := make(gate), 0
		r := start(t, 1, writer.Config{}, owner.Config{}, func(_ context.Context, batch []*writer.Cmd[int, int]) error {
			<-g
			if batch[0].Value == 1 {
				return nil
			}
			if tries++; tries <= 2 {
				return writer.NotApplied(errBad)
			}
			return &slowRefusal{&fence.FencedError{Mine: 1, Current: 2}}
		})
		as := []*answer{r.in(1), r.in(2), r.in(3), r.in(4), r.in(5)}
		close(g)
		r.wantReply(as[0], 1)
		for i, a := range as[1:] {
			r.wantError(a, i+2, writer.ErrEnded, cas.NotApplied)
		}
		synctest.Wait()
		r.apply = nil
		r.Settle()
	})
}

// Config.Drain counts from the hand-off's beginning, as DrainTimeout does: requests that took their time leave less for what
// is queued from outside, and the batch under way is not cut off.
func TestHandoff_DrainCountsFromItsBeginning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended []owner.State
		oc := ends(&ended)
		oc.DrainTimeout = 5 * time.Second
		r := start(t, 2, writer.Config{MaxBatch: 1, Drain: 3 * time.Second}, oc, slow)
		at := r.Owner(key)
		inside := make(chan error, 1)
		go func() {
			inside <- r.Nodes[at].Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
				<-tn.Draining()
				time.Sleep(2500 * time.Millisecond)
				return nil
			})
		}()
		synctest.Wait()
		as := r.all(r.Tenure(key), 9)
		r.Move(key, 1-at)
		if err := <-inside; err != nil {
			t.Errorf("the request: %v", err)
		}
		n := len(r.committed())
		if n < 3 || n > 5 {
			t.Errorf("%d batches were applied, want about 4", n)
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

// What requests queue in the hand-off is applied however long they take.
func TestHandoff_RequestsAreNotBoundByDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := start(t, 2, writer.Config{Drain: time.Second}, owner.Config{}, nil)
		at := r.Owner(key)
		late := make(chan error, 1)
		go func() {
			_ = r.Nodes[at].Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
				<-tn.Draining()
				time.Sleep(3 * time.Second)
				_, err := r.w.Do(ctx, tn, 1)
				late <- err
				return nil
			})
		}()
		synctest.Wait()
		r.Move(key, 1-at)
		if err := <-late; err != nil {
			t.Errorf("got %v, want it applied", err)
		}
	})
}

// A zombie's batch, which the fence refused after the node had seen the loss, is counted.
func TestLoss_FencedIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := start(t, 2, writer.Config{}, owner.Config{}, func(ctx context.Context, batch []*writer.Cmd[int, int]) error {
			<-ctx.Done()
			return &fence.FencedError{Mine: 1, Current: 2}
		})
		at := r.Owner(key)
		a := r.do(context.Background(), r.Tenure(key), 1)
		r.Lose(key)
		r.wantError(a, 1, writer.ErrEnded, cas.NotApplied)
		synctest.Wait()
		if got := r.Nodes[at].Status().Counters.Fenced; got != 1 {
			t.Errorf("Fenced: got %d, want 1", got)
		}
	})
}
