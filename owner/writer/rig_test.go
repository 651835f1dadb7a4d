package writer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

const key = "a"

var group = shard.Group{Name: "rig", Shards: 1}

// rig is a Writer of numbers on real nodes. A command's reply is ten times its value.
type rig struct {
	*ownertest.Cluster
	t *testing.T
	w *writer.Writer[int, int]

	mu    sync.Mutex // guards the rest
	apply func(ctx context.Context, batch []*writer.Cmd[int, int]) error
	tries [][]int // what Apply was called with
	done  []int   // what was committed, in order
	opens int
}

// start runs a rig. apply takes the place of a commit, after each Cmd was replied to; nil commits.
func start(t *testing.T, nodes int, wc writer.Config, oc owner.Config, apply func(context.Context, []*writer.Cmd[int, int]) error) *rig {
	t.Helper()
	r := &rig{t: t, apply: apply}
	r.w = writer.New(func(context.Context, *owner.Tenure) (writer.Apply[int, int], error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.opens++
		return r.commit, nil
	}, wc)
	r.Cluster = ownertest.Start(t, nodes, group, r.w.Serve, oc)
	return r
}

func (r *rig) commit(ctx context.Context, batch []*writer.Cmd[int, int]) error {
	var values []int
	for _, c := range batch {
		values = append(values, c.Value)
		c.Reply(10 * c.Value)
	}
	r.mu.Lock()
	r.tries = append(r.tries, values)
	apply := r.apply
	r.mu.Unlock()
	if apply != nil {
		if err := apply(ctx, batch); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.done = append(r.done, values...)
	r.mu.Unlock()
	return nil
}

func (r *rig) committed() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.done)
}

func (r *rig) batches() [][]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tries)
}

func (r *rig) opened() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opens
}

// answer is what a caller got; ended once it is there.
type answer struct {
	ended chan struct{}
	reply int
	err   error
}

// do queues v from a goroutine of its own, behind all that was queued before.
func (r *rig) do(ctx context.Context, tn *owner.Tenure, v int) *answer {
	a := &answer{ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		a.reply, a.err = r.w.Do(ctx, tn, v)
	}()
	synctest.Wait()
	return a
}

// all queues 1 to n in order.
func (r *rig) all(tn *owner.Tenure, n int) []*answer {
	var as []*answer
	for v := 1; v <= n; v++ {
		as = append(as, r.do(context.Background(), tn, v))
	}
	return as
}

func (a *answer) pending() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

// wantReply waits for the answer to v.
func (r *rig) wantReply(a *answer, v int) {
	r.t.Helper()
	<-a.ended
	if a.err != nil || a.reply != 10*v {
		r.t.Errorf("Do(%d): got %d, %v, want %d", v, a.reply, a.err, 10*v)
	}
}

// wantError waits for an error that is want, with an outcome.
func (r *rig) wantError(a *answer, v int, want error, outcome cas.Outcome) {
	r.t.Helper()
	<-a.ended
	if !errors.Is(a.err, want) || cas.OutcomeOf(a.err) != outcome || a.reply != 0 {
		r.t.Errorf("Do(%d): got %d, %v (%s), want %v (%s)", v, a.reply, a.err, cas.OutcomeOf(a.err), want, outcome)
	}
}

// gate is an apply that holds every batch until it is let through.
type gate chan struct{}

func (g gate) hold(context.Context, []*writer.Cmd[int, int]) error {
	<-g
	return nil
}

// bubble runs a test on virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
