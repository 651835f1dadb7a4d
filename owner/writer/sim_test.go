package writer_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

var (
	seeds = flag.Int("seeds", 10, "how many simulations TestSimulation runs")
	seed  = flag.Uint64("seed", 0, "run this one alone, and say what happens")
)

// simOp is a command of the simulation. A poisoned one fails every batch that it is in, a refused one is rejected.
type simOp struct {
	id                 string
	poisoned, rejected bool
}

// database is what the commands are applied to: a fenced log of ids. A command's reply is its place in there.
type database struct {
	t    *testing.T
	mu   sync.Mutex // guards the rest
	rand *rand.Rand
	log  []string
	seal shard.Epoch
	seen map[string]int // faults and ends, by name
}

func (d *database) count(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[what]++
}

// open is the writer.Open.
func (d *database) open(_ context.Context, t *owner.Tenure) (writer.Apply[simOp, int], error) {
	epoch := t.Token().Epoch
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seal = max(d.seal, epoch)
	d.seen["open"]++
	var busy atomic.Bool
	return func(ctx context.Context, batch []*writer.Cmd[simOp, int]) error {
		if !busy.CompareAndSwap(false, true) {
			d.t.Error("Apply runs twice at a time")
		}
		defer busy.Store(false)
		return d.apply(ctx, epoch, batch)
	}, nil
}

// apply commits a batch, and some of the time does not, or pretends.
func (d *database) apply(ctx context.Context, epoch shard.Epoch, batch []*writer.Cmd[simOp, int]) error {
	d.mu.Lock()
	fault, patience := d.rand.IntN(60), time.Duration(d.rand.IntN(30))*time.Millisecond
	if d.rand.IntN(50) == 0 {
		patience = 3 * time.Second
	}
	d.mu.Unlock()
	select {
	case <-time.After(patience):
	case <-ctx.Done(): // and then it goes on, as one who does not look
	}
	switch fault {
	case 0, 1, 2:
		d.count("not applied")
		return writer.NotApplied(errors.New("serialization failure"))
	case 3:
		d.count("panic before")
		panic("before the commit")
	case 4:
		d.count("plain error")
		return errors.New("who knows")
	}
	if err := d.commit(epoch, batch); err != nil {
		return err
	}
	switch fault {
	case 5, 6:
		d.count("uncertain")
		return fmt.Errorf("commit: %w", cas.ErrUncertain)
	case 7:
		d.count("panic after")
		panic("after the commit")
	}
	return nil
}

func (d *database) commit(epoch shard.Epoch, batch []*writer.Cmd[simOp, int]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch != d.seal {
		d.seen["fenced"]++
		return &fence.FencedError{Mine: epoch, Current: d.seal}
	}
	for _, c := range batch {
		if c.Value.poisoned {
			d.seen["poisoned"]++
			return writer.NotApplied(errBad)
		}
	}
	for _, c := range batch {
		if c.Value.rejected {
			c.Reject(errBad)
			continue
		}
		d.log = append(d.log, c.Value.id)
		c.Reply(len(d.log) - 1)
	}
	return nil
}

// simCall is what a producer saw of one command, in the end.
type simCall struct {
	simOp
	begun, ended int64 // by a clock that counts beginnings and ends
	outcome      cas.Outcome
	at           int // if applied
}

// producer sends its commands one after another, and one again as long as it is told that it was not applied.
type producer struct {
	name  string
	rand  *rand.Rand
	w     *writer.Writer[simOp, int]
	nodes []*owner.Node
	clock *atomic.Int64
	d     *database
	calls []simCall
}

func (p *producer) run(n int) {
	for i := range n {
		op := simOp{id: fmt.Sprintf("%s-%d", p.name, i), poisoned: p.rand.IntN(60) == 0, rejected: p.rand.IntN(20) == 0}
		c := simCall{simOp: op, begun: p.clock.Add(1)}
		for range 30 {
			var err error
			if c.at, err = p.send(op); cas.OutcomeOf(err) != cas.NotApplied {
				c.outcome = cas.OutcomeOf(err)
				if err != nil {
					p.d.count("caller: " + c.outcome.String())
				}
				break
			} else if c.outcome = cas.NotApplied; op.rejected || op.poisoned {
				break
			}
			<-time.After(time.Duration(p.rand.IntN(300)) * time.Millisecond)
		}
		c.ended = p.clock.Add(1)
		p.calls = append(p.calls, c)
		<-time.After(time.Duration(p.rand.IntN(20)) * time.Millisecond)
	}
}

// send sends a command through any node, inside of a request or, with the request's tenure, past its end.
func (p *producer) send(op simOp) (at int, err error) {
	ctx, cancel := context.Background(), func() {}
	switch p.rand.IntN(4) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(p.rand.IntN(100))*time.Millisecond)
	case 1, 2:
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
	}
	defer cancel()
	var tenure *owner.Tenure
	outside := p.rand.IntN(3) == 0
	err = p.nodes[p.rand.IntN(len(p.nodes))].Do(ctx, key, func(ctx context.Context, t *owner.Tenure) error {
		if tenure = t; outside {
			return nil
		}
		at, err = p.w.Do(ctx, t, op)
		return err
	})
	if tenure != nil && outside {
		at, err = p.w.Do(ctx, tenure, op)
	}
	for _, known := range []error{writer.ErrFull, writer.ErrEnded, writer.ErrUnsettled} {
		if errors.Is(err, known) {
			p.d.count(known.Error())
		}
	}
	return at, err
}

// TestSimulation runs producers against nodes whose shard is handed over and lost, and whose database fails. The seed fixes
// the faults and what the producers do; how the goroutines take turns it does not fix.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		t.Logf("%v", simulate(t, *seed))
		return
	}
	all := make(map[string]int)
	for s := range uint64(*seeds) {
		for what, n := range simulate(t, s+1) {
			all[what] += n
		}
	}
	for _, what := range []string{
		"not applied", "uncertain", "panic before", "panic after", "plain error", "poisoned", "fenced",
		"caller: uncertain", writer.ErrFull.Error(), writer.ErrEnded.Error(), "moves", "losses", "uncertain, and applied",
	} {
		if all[what] == 0 && *seeds >= 40 {
			t.Errorf("no simulation had %q: they prove less than they should", what)
		}
	}
	t.Logf("%v", all)
}

func simulate(t *testing.T, seed uint64) (seen map[string]int) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		t.Helper()
		random := func(of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, of)) }
		r := random(0)
		d := &database{t: t, rand: random(1), seen: make(map[string]int)}
		w := writer.New(d.open, writer.Config{
			MaxBatch: 1 + r.IntN(8), Queue: 1 + r.IntN(6),
			Wait:  []time.Duration{0, -1, 50 * time.Millisecond}[r.IntN(3)],
			Drain: []time.Duration{0, 20 * time.Millisecond}[r.IntN(2)],
		})
		c := ownertest.Start(t, 2, group, w.Serve, owner.Config{DrainTimeout: time.Duration(1+r.IntN(6)) * time.Second})
		var clock atomic.Int64
		var producers []*producer
		var all sync.WaitGroup
		for i := range 3 + r.IntN(8) {
			p := &producer{
				name: fmt.Sprint("p", i), rand: random(uint64(10 + i)), w: w, nodes: c.Nodes, clock: &clock, d: d,
			}
			producers = append(producers, p)
			all.Go(func() { p.run(40) })
		}
		for range 6 {
			<-time.After(time.Duration(r.IntN(2000)) * time.Millisecond)
			c.Settle()
			if at := c.Owner(key); r.IntN(3) > 0 {
				d.count("moves")
				c.Move(key, 1-at)
			} else {
				d.count("losses")
				c.Lose(key)
				<-time.After(time.Duration(r.IntN(4000)) * time.Millisecond)
				c.Cut(at, false)
			}
		}
		all.Wait()
		<-time.After(10 * time.Second) // a batch whose callers have gone may still be under way
		c.Settle()
		check(t, seed, d, producers)
		seen = d.seen
	})
	return seen
}

// check holds what the producers were told against the log.
func check(t *testing.T, seed uint64, d *database, producers []*producer) {
	t.Helper()
	fault := func(format string, args ...any) {
		t.Helper()
		t.Errorf("-seed %d: %s", seed, fmt.Sprintf(format, args...))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := make(map[string][]int)
	for i, id := range d.log {
		at[id] = append(at[id], i)
	}
	var acknowledged []simCall
	for _, p := range producers {
		for _, c := range p.calls {
			found := at[c.id]
			switch {
			case len(found) > 1:
				fault("%s was applied %d times", c.id, len(found))
			case c.outcome == cas.Applied && !slices.Equal(found, []int{c.at}):
				fault("%s was acknowledged at %d, and is at %v", c.id, c.at, found)
			case c.outcome == cas.NotApplied && len(found) > 0:
				fault("%s was said not to be applied, and is at %v", c.id, found)
			case c.outcome == cas.Uncertain && len(found) > 0:
				d.seen["uncertain, and applied"]++
			}
			if c.outcome == cas.Applied {
				acknowledged = append(acknowledged, c)
			}
		}
	}
	// Whoever began after another had been told comes after it. Sorted by place, no begin may lie before an end that is to
	// come: compare with the earliest end among those behind.
	slices.SortFunc(acknowledged, func(a, b simCall) int { return cmp.Compare(a.at, b.at) })
	for i := len(acknowledged) - 2; i >= 0; i-- {
		if next := &acknowledged[i+1]; next.ended < acknowledged[i].begun {
			fault("%s is behind %s, which was sent after it had ended", next.id, acknowledged[i].id)
		} else if next.ended < acknowledged[i].ended {
			acknowledged[i].ended = next.ended
		}
	}
	if len(acknowledged) == 0 {
		fault("nothing was acknowledged")
	}
}
