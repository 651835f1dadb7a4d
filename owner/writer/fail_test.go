package writer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/writer"
)

var errBad = errors.New("violates a constraint")

// refuse fails batches that have a bad command, as a database does: nothing of them is applied.
func refuse(bad ...int) func(context.Context, []*writer.Cmd[int, int]) error {
	return func(_ context.Context, batch []*writer.Cmd[int, int]) error {
		for _, c := range batch {
			if slices.Contains(bad, c.Value) {
				return writer.NotApplied(errBad)
			}
		}
		return nil
	}
}

// A batch that failed is retried whole, then split until the bad command stands alone; the order is kept.
func TestSplit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		r := start(t, 1, writer.Config{}, owner.Config{}, func(ctx context.Context, batch []*writer.Cmd[int, int]) error {
			<-g
			return refuse(3)(ctx, batch)
		})
		tn := r.Tenure(key)
		as := r.all(tn, 6)
		close(g)
		for i, a := range as {
			if i == 2 {
				r.wantError(a, 3, errBad, cas.NotApplied)
			} else {
				r.wantReply(a, i+1)
			}
		}
		want := [][]int{{1}, {2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}, {2, 3}, {2}, {3}, {4, 5, 6}}
		if diff := cmp.Diff(want, r.batches()); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{1, 2, 4, 5, 6}, r.committed()); diff != "" {
			t.Errorf("committed (-want +got):\n%s", diff)
		}
		if err := tn.Err(); err != nil {
			t.Errorf("the tenure ended: %v", err)
		}
	})
}

// What passes by itself is mended by the retry, and no caller hears of it.
func TestSplit_RetriedWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		failed := false
		var first *writer.Cmd[int, int]
		r := start(t, 1, writer.Config{}, owner.Config{}, nil)
		r.apply = func(_ context.Context, batch []*writer.Cmd[int, int]) error {
			if !failed {
				failed, first = true, batch[0]
				return writer.NotApplied(errBad)
			}
			first.Reply(17) // by a goroutine of the try that failed: it is too late, and says nothing about this one
			return nil
		}
		r.wantReply(r.do(t.Context(), r.Tenure(key), 1), 1)
		if diff := cmp.Diff([][]int{{1}, {1}}, r.batches()); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
	})
}

// The first of the largest batch can be found, with one failure to spare.
func TestSplit_LargestBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 8192
		g := make(gate)
		r := start(t, 1, writer.Config{MaxBatch: n, Queue: n}, owner.Config{}, func(ctx context.Context, batch []*writer.Cmd[int, int]) error {
			<-g
			return refuse(1)(ctx, batch)
		})
		tn := r.Tenure(key)
		as := []*answer{r.do(t.Context(), tn, 0), r.do(t.Context(), tn, 1)}
		for v := 2; v <= n; v++ {
			a := &answer{ended: make(chan struct{})}
			as = append(as, a)
			go func() { defer close(a.ended); a.reply, a.err = r.w.Do(t.Context(), tn, v) }()
		}
		close(g)
		r.wantError(as[1], 1, errBad, cas.NotApplied)
		for _, a := range as[2:] {
			if <-a.ended; a.err != nil {
				t.Fatal(a.err)
			}
		}
		if got := len(r.committed()); got != n {
			t.Errorf("committed %d, want %d", got, n)
		}
	})
}

// Failures in a row, over batches too, are a fault of what is written to: the tenure ends, and the next loads anew.
func TestSixteenFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		down := true
		r := start(t, 1, writer.Config{}, owner.Config{}, nil)
		r.apply = func(context.Context, []*writer.Cmd[int, int]) error {
			if down {
				return writer.NotApplied(errBad)
			}
			return nil
		}
		tn := r.Tenure(key)
		for v := 1; v <= 7; v++ { // two tries each
			r.wantError(r.do(t.Context(), tn, v), v, errBad, cas.NotApplied)
		}
		down = false
		r.wantReply(r.do(t.Context(), tn, 8), 8) // which begins the count anew
		down = true
		for v := 11; v <= 17; v++ {
			r.wantError(r.do(t.Context(), tn, v), v, errBad, cas.NotApplied)
		}
		if err := tn.Err(); err != nil {
			t.Fatalf("after 14 failures the tenure ended: %v", err)
		}
		last := r.do(t.Context(), tn, 18)
		r.wantError(last, 18, errBad, cas.NotApplied)
		if errors.Is(last.err, writer.ErrEnded) {
			t.Errorf("it failed alone: got %v, want its own error", last.err)
		}
		if err := tn.Err(); err == nil || !strings.Contains(err.Error(), "16 tries in a row") {
			t.Errorf("after 16: got %v, want the tenure ended", err)
		}
		down = false
		synctest.Wait()
		r.Settle()
		r.wantReply(r.do(t.Context(), r.Tenure(key), 19), 19)
		if r.opened() != 2 {
			t.Errorf("opened %d times, want 2", r.opened())
		}
	})
}

// Those who did not fail alone when the tenure ended may go on to the next; nobody's command is lost or run twice.
func TestSixteenFailures_InOneBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		r := start(t, 1, writer.Config{MaxBatch: 9, Queue: 9}, owner.Config{}, func(_ context.Context, batch []*writer.Cmd[int, int]) error {
			<-g
			if batch[0].Value == 1 {
				return nil
			}
			return writer.NotApplied(errBad)
		})
		as := r.all(r.Tenure(key), 12) // one, a batch of 9, one that is queued and one that waits for room
		close(g)
		r.wantReply(as[0], 1)
		// Tries of 9, 9, 4, 2, 1, 1, 2, 1, 1, 5, 2, 1, 1, 3, 1 and 2 commands.
		for i, a := range as[1:] {
			want := errBad
			if i >= 7 {
				want = writer.ErrEnded
			}
			r.wantError(a, i+2, want, cas.NotApplied)
			if i < 7 && errors.Is(a.err, writer.ErrEnded) {
				t.Errorf("Do(%d) failed alone: got %v, want its own error", i+2, a.err)
			}
		}
		if got := len(r.batches()); got != 17 {
			t.Errorf("got %d tries, want 1 and 16", got)
		}
	})
}

// What each error of Apply means for its batch and for the tenure.
func TestApplyErrors(t *testing.T) {
	notApplied := writer.NotApplied
	for _, c := range []struct {
		name    string
		apply   func(*owner.Tenure) error
		outcome cas.Outcome
		retried bool
	}{
		{"marked", func(*owner.Tenure) error { return notApplied(errBad) }, cas.NotApplied, true},
		{"of the library", func(*owner.Tenure) error { return fmt.Errorf("write: %w", cas.ErrUnavailable) }, cas.NotApplied, true},
		{"another key's conflict", func(*owner.Tenure) error {
			return &cas.ConflictError{Current: []cas.Entry{{Key: "/data", Rev: 7}}}
		}, cas.NotApplied, true},
		{"plain", func(*owner.Tenure) error { return errBad }, cas.Uncertain, false},
		{"uncertain", func(*owner.Tenure) error { return fmt.Errorf("commit: %w", cas.ErrUncertain) }, cas.Uncertain, false},
		{"deadline", func(*owner.Tenure) error { return context.DeadlineExceeded }, cas.Uncertain, false},
		{"applied", func(*owner.Tenure) error { return writer.ErrUnsettled }, cas.Applied, false},
		{"fenced", func(*owner.Tenure) error { return notApplied(&fence.FencedError{Mine: 1, Current: 2}) }, cas.NotApplied, false},
		{"not sealed", func(*owner.Tenure) error { return fence.ErrNotSealed }, cas.NotApplied, false},
		{"no token", func(*owner.Tenure) error { return notApplied(fence.ErrToken) }, cas.NotApplied, false},
		{"another group", func(*owner.Tenure) error { return &fence.GroupError{Group: "rig"} }, cas.NotApplied, false},
		{"consumed", func(*owner.Tenure) error { return &fence.PositionError{Stream: "s"} }, cas.NotApplied, false},
		{"lost", func(t *owner.Tenure) error { return notApplied(&owner.LostError{Token: t.Token()}) }, cas.NotApplied, false},
		{"the guard's conflict", func(t *owner.Tenure) error {
			return &cas.ConflictError{Current: []cas.Entry{{Key: "/data", Rev: 7}, {Key: t.Guard().Key, Rev: t.Guard().Is + 1}}}
		}, cas.NotApplied, false},
		{"panic", func(*owner.Tenure) error { panic(notApplied(errBad)) }, cas.Uncertain, false},
		{"goexit", func(*owner.Tenure) error { runtime.Goexit(); return nil }, cas.Uncertain, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := make(gate)
				r := start(t, 1, writer.Config{MaxBatch: 2}, owner.Config{}, nil)
				tn := r.Tenure(key)
				r.apply = func(_ context.Context, batch []*writer.Cmd[int, int]) error {
					<-g
					for _, cmd := range batch {
						if cmd.Value == 2 {
							return c.apply(tn)
						}
					}
					return nil
				}
				as := r.all(tn, 4)
				close(g)
				r.wantReply(as[0], 1)
				bad := as[1]
				<-bad.ended
				if bad.err == nil || cas.OutcomeOf(bad.err) != c.outcome || strings.Contains(bad.err.Error(), "\n") {
					t.Errorf("the bad one: got %v (%s), want %s", bad.err, cas.OutcomeOf(bad.err), c.outcome)
				}
				if c.retried {
					r.wantReply(as[2], 3)
					r.wantReply(as[3], 4)
					if tn.Err() != nil {
						t.Errorf("the tenure ended: %v", tn.Err())
					}
					return
				}
				if got, want := errors.Is(bad.err, writer.ErrEnded), c.outcome == cas.NotApplied; got != want {
					t.Errorf("the bad one: got %v, want it ErrEnded: %v", bad.err, want)
				}
				if tn.Err() == nil {
					t.Error("the tenure goes on")
				}
				if <-as[2].ended; cas.OutcomeOf(as[2].err) != c.outcome {
					t.Errorf("with it in the batch: got %v (%s), want %s", as[2].err, cas.OutcomeOf(as[2].err), c.outcome)
				}
				r.wantError(as[3], 4, writer.ErrEnded, cas.NotApplied)
				if diff := cmp.Diff([][]int{{1}, {2, 3}}, r.batches()); diff != "" {
					t.Errorf("tries (-want +got):\n%s", diff)
				}
				synctest.Wait() // until the node has seen it
				r.Settle()
				r.wantReply(r.do(t.Context(), r.Tenure(key), 5), 5)
			})
		})
	}
}

// A panic's stack is in the node's log, and not in what callers get.
func TestApplyErrors_PanicIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log strings.Builder
		oc := owner.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		r := start(t, 1, writer.Config{}, oc, func(context.Context, []*writer.Cmd[int, int]) error { panic("no such row") })
		a := r.do(t.Context(), r.Tenure(key), 1)
		<-a.ended
		if got, want := a.err.Error(), "writer: apply: panic: no such row"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		r.apply = nil
		synctest.Wait()
		r.Settle()
		r.Leave(0)
		if got := log.String(); !strings.Contains(got, "no such row") || !strings.Contains(got, "fail_test.go") {
			t.Errorf("the log lacks the panic's stack:\n%s", got)
		}
	})
}

func TestNotApplied(t *testing.T) {
	if err := writer.NotApplied(nil); err != nil {
		t.Errorf("NotApplied(nil): got %v", err)
	}
	err := writer.NotApplied(fmt.Errorf("%w: %w", errBad, cas.ErrUncertain))
	if !errors.Is(err, errBad) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s)", err, cas.OutcomeOf(err))
	}
}
