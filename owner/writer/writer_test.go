package writer_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/owner/writer"
)

// An idle shard's command is applied at once; what comes while a batch is under way is the next batch, in order.
func TestBatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := make(gate)
		r := start(t, 1, writer.Config{MaxBatch: 3}, owner.Config{}, g.hold)
		as := r.all(r.Tenure(key), 8)
		close(g)
		for i, a := range as {
			r.wantReply(a, i+1)
		}
		if diff := cmp.Diff([][]int{{1}, {2, 3, 4}, {5, 6, 7}, {8}}, r.batches()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

// In a request the tenure comes from its context.
func TestDo_InARequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := start(t, 1, writer.Config{}, owner.Config{}, nil)
		err := r.Nodes[0].Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
			got, err := r.w.Do(ctx, tn, 7)
			if got != 70 {
				t.Errorf("got %d, want 70", got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestSettling(t *testing.T) {
	no := errors.New("no such account")
	bubble(t, func(t *testing.T) {
		g := make(gate)
		r := start(t, 1, writer.Config{MaxBatch: 5}, owner.Config{}, nil) // 1, 2 to 6, 7
		over := make(chan struct{})
		var late sync.WaitGroup
		r.apply = func(ctx context.Context, batch []*writer.Cmd[int, int]) error {
			for _, c := range batch { // each was replied to
				switch c.Value {
				case 1:
					<-g
				case 2:
					c.Reject(no)
				case 7:
					close(over)
				case 3:
					c.Reject(no)
					c.Reply(30)
				case 4:
					c.Reply(17)
					c.Reject(cas.ErrUncertain) // which says nothing about the rejected command
				case 5:
					late.Go(func() { <-over; c.Reply(17) }) // outlives Apply
				case 6:
					c.Reject(nil)
				}
			}
			return nil
		}
		as := r.all(r.Tenure(key), 7)
		close(g)
		r.wantReply(as[0], 1)
		r.wantError(as[1], 2, no, cas.NotApplied)
		if e, ok := errors.AsType[*writer.RejectedError](as[1].err); !ok || e.Err != no {
			t.Errorf("got %v, want a RejectedError with what Reject was given", as[1].err)
		}
		r.wantReply(as[2], 3)
		r.wantError(as[3], 4, cas.ErrUncertain, cas.NotApplied)
		r.wantReply(as[4], 5)
		<-as[5].ended
		if _, ok := errors.AsType[*writer.RejectedError](as[5].err); !ok {
			t.Errorf("Reject(nil): got %v, want a RejectedError", as[5].err)
		}
		r.wantReply(as[6], 7)
		late.Wait()
	})
}

func TestSettling_Nothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := writer.New(func(context.Context, *owner.Tenure) (writer.Apply[int, int], error) {
			return func(context.Context, []*writer.Cmd[int, int]) error { return nil }, nil
		}, writer.Config{})
		c := ownertest.Start(t, 1, group, w.Serve, owner.Config{})
		_, err := w.Do(t.Context(), c.Tenure(key), 1)
		if !errors.Is(err, writer.ErrUnsettled) || cas.OutcomeOf(err) != cas.Applied {
			t.Errorf("got %v (%s), want ErrUnsettled, applied", err, cas.OutcomeOf(err))
		}
	})
}

func TestCmd_Zero(t *testing.T) {
	var c writer.Cmd[int, int]
	c.Reply(1)
	c.Reject(nil)
	if c.Context() == nil {
		t.Error("Context: got nil")
	}
}

func TestCmd_Context(t *testing.T) {
	type trace struct{}
	bubble(t, func(t *testing.T) {
		r := start(t, 1, writer.Config{}, owner.Config{}, func(ctx context.Context, batch []*writer.Cmd[int, int]) error {
			if got := batch[0].Context().Value(trace{}); got != "x" {
				t.Errorf("the caller's context has %v, want x", got)
			}
			if _, err := owner.From(ctx); err != nil {
				t.Errorf("Apply's context: %v", err)
			}
			return nil
		})
		r.wantReply(r.do(context.WithValue(t.Context(), trace{}, "x"), r.Tenure(key), 1), 1)
	})
}

func TestDo_NoQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := start(t, 2, writer.Config{}, owner.Config{}, nil)
		other := writer.New(func(context.Context, *owner.Tenure) (writer.Apply[int, int], error) { return nil, nil }, writer.Config{})
		tn := r.Tenure(key)
		for what, do := range map[string]func() (int, error){
			"nil":           func() (int, error) { return r.w.Do(t.Context(), nil, 1) },
			"not served by": func() (int, error) { return other.Do(t.Context(), tn, 1) },
		} {
			if _, err := do(); err == nil || !strings.Contains(err.Error(), what) || cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("got %v (%s), want an error about %q, not applied", err, cas.OutcomeOf(err), what)
			}
		}
		r.Move(key, 1-r.Owner(key))
		r.wantError(r.do(t.Context(), tn, 1), 1, writer.ErrEnded, cas.NotApplied)
		if len(r.committed()) > 0 {
			t.Errorf("committed %v, want nothing", r.committed())
		}
	})
}

func TestConfig(t *testing.T) {
	open := func(context.Context, *owner.Tenure) (writer.Apply[int, int], error) { return nil, nil }
	for _, c := range []struct {
		config writer.Config
		want   []string
	}{
		{writer.Config{MaxBatch: -1}, []string{"Config.MaxBatch is -1"}},
		{writer.Config{MaxBatch: 8193}, []string{"Config.MaxBatch is 8193: want 1 to 8192"}},
		{writer.Config{Queue: -1, Drain: -time.Second}, []string{"Config.Queue is -1", "Config.Drain is -1s"}},
	} {
		w := writer.New(open, c.config)
		_, do := w.Do(t.Context(), nil, 1)
		for _, err := range []error{do, w.Serve(t.Context(), nil)} {
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), "writer: "+want) || cas.OutcomeOf(err) != cas.NotApplied {
					t.Errorf("%+v: got %v, want %q, not applied", c.config, err, want)
				}
			}
		}
	}
	if err := writer.New[int, int](nil, writer.Config{}).Serve(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "open is nil") {
		t.Errorf("New(nil): got %v", err)
	}
}

// A shard that can't be opened is tried again, and lets nobody in before.
func TestOpen_Fails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var opens int
		w := writer.New(func(context.Context, *owner.Tenure) (writer.Apply[int, int], error) {
			opens++
			switch opens {
			case 1:
				return nil, errors.New("no database")
			case 2:
				return nil, nil
			}
			return func(_ context.Context, batch []*writer.Cmd[int, int]) error {
				batch[0].Reply(1)
				return nil
			}, nil
		}, writer.Config{})
		var why []error
		oc := owner.Config{Hooks: owner.Hooks{Tenure: func(ev owner.Event) {
			if ev.State == owner.Failed {
				why = append(why, ev.Err)
			}
		}}}
		c := ownertest.Start(t, 1, group, w.Serve, oc)
		if _, err := w.Do(t.Context(), c.Tenure(key), 1); err != nil {
			t.Error(err)
		}
		if len(why) != 2 || !strings.Contains(why[0].Error(), "no database") || !strings.Contains(why[1].Error(), "returned no Apply") {
			t.Errorf("failed starts: %v, want no database, then no Apply", why)
		}
	})
}

// Callers who come back with their replies are in the next batch, and not in the one after it. They are not waited for.
func TestBatches_OfAll(t *testing.T) {
	const callers, rounds, commit = 8, 100, time.Millisecond
	bubble(t, func(t *testing.T) {
		r := start(t, 1, writer.Config{}, owner.Config{}, func(context.Context, []*writer.Cmd[int, int]) error {
			time.Sleep(commit)
			return nil
		})
		tn := r.Tenure(key)
		begun := time.Now()
		var all sync.WaitGroup
		for range callers { // most of them come while the first one's batch is applied
			all.Go(func() {
				for range rounds {
					if _, err := r.w.Do(t.Context(), tn, 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		batches := r.batches()
		if took := time.Since(begun); took != time.Duration(len(batches))*commit {
			t.Errorf("%d batches, one after another, took %v, want %v each", len(batches), took, commit)
		}
		if len(batches) > rounds*3/2 { // halves would be 2*rounds
			t.Errorf("%d callers, %d commands each: got %d batches, want about as many as that", callers, rounds, len(batches))
		}
	})
}
