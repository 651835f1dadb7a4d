package writer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/writer"
)

// Whoever gives up while its command is queued is told that it was not applied, and it never is. Once it is in a batch, it is.
func TestWithdraw(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		r := start(t, 1, writer.Config{}, owner.Config{}, g.hold)
		tn := r.Tenure(key)
		ctx, cancel := context.WithCancel(t.Context())
		running := r.do(ctx, tn, 1)
		queued := []*answer{r.do(ctx, tn, 2), r.do(t.Context(), tn, 3), r.do(ctx, tn, 4), r.do(t.Context(), tn, 5)}
		cancel()
		r.wantError(running, 1, context.Canceled, cas.Uncertain)
		r.wantError(queued[0], 2, context.Canceled, cas.NotApplied)
		r.wantError(queued[2], 4, context.Canceled, cas.NotApplied)
		r.wantError(r.do(ctx, tn, 6), 6, context.Canceled, cas.NotApplied) // had ended before
		close(g)
		r.wantReply(queued[1], 3)
		r.wantReply(queued[3], 5)
		if diff := cmp.Diff([]int{1, 3, 5}, r.committed()); diff != "" {
			t.Errorf("committed (-want +got):\n%s", diff)
		}
	})
}

// A full queue makes callers wait for room, in order, as long as they care to.
func TestFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		r := start(t, 1, writer.Config{Queue: 2}, owner.Config{}, g.hold)
		tn := r.Tenure(key)
		ctx, cancel := context.WithCancel(t.Context())
		first := r.all(tn, 3) // one is in a batch, two fill the queue
		for v := 4; v <= 6; v++ {
			first = append(first, r.do(t.Context(), tn, v))
		}
		gone := r.do(ctx, tn, 7)
		last := r.do(t.Context(), tn, 8)
		cancel()
		r.wantError(gone, 7, writer.ErrFull, cas.NotApplied)
		r.wantError(gone, 7, context.Canceled, cas.NotApplied)
		close(g)
		for i, a := range first {
			r.wantReply(a, i+1)
		}
		r.wantReply(last, 8)
		if diff := cmp.Diff([][]int{{1}, {2, 3}, {4, 5}, {6, 8}}, r.batches()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

// A command that is withdrawn makes room for the next.
func TestFull_WithdrawnMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		r := start(t, 1, writer.Config{Queue: 1, Wait: time.Minute}, owner.Config{}, g.hold)
		tn := r.Tenure(key)
		ctx, cancel := context.WithCancel(t.Context())
		first := r.do(t.Context(), tn, 1)
		queued := r.do(ctx, tn, 2)
		next := r.do(t.Context(), tn, 3)
		cancel()
		r.wantError(queued, 2, context.Canceled, cas.NotApplied)
		time.Sleep(2 * time.Minute) // past Wait: next has room, so it stays
		close(g)
		r.wantReply(first, 1)
		r.wantReply(next, 3)
	})
}

func TestFull_Wait(t *testing.T) {
	for _, wait := range []time.Duration{-1, time.Second} {
		bubble(t, func(t *testing.T) {
			g := make(gate)
			r := start(t, 1, writer.Config{Queue: 1, Wait: wait}, owner.Config{}, g.hold)
			tn := r.Tenure(key)
			first := r.all(tn, 2)
			begun := time.Now()
			full := r.do(t.Context(), tn, 3)
			if got := full.pending(); got != (wait > 0) {
				t.Errorf("Wait %v: waits for room: got %v", wait, got)
			}
			r.wantError(full, 3, writer.ErrFull, cas.NotApplied)
			if took := time.Since(begun); took != max(0, wait) {
				t.Errorf("Wait %v: took %v", wait, took)
			}
			full = r.do(t.Context(), tn, 4)
			if wait > 0 { // it gets room in time
				close(g)
				r.wantReply(full, 4)
			} else {
				close(g)
			}
			r.wantReply(first[0], 1)
			r.wantReply(first[1], 2)
			synctest.Wait()
		})
	}
}
