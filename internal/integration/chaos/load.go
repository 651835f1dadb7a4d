package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/shard"
)

// load is clients that work on registers through the load balancer.
type load struct {
	fleet    *fleet
	client   *client
	recorder *recorder
	slots    []*slot
	ids      atomic.Int64

	// strict is called with each operation that did not succeed, where all must.
	strict func(op)
}

// slotsPerShard is how many registers each shard has at a time.
const slotsPerShard = 2

// mostAtOnce is how many operations on a register may be under way. Without a limit one owner that is stopped would
// soon have all clients wait for it.
const mostAtOnce = 2

// What makes a slot turn to a new register: so many operations, or so many whose outcome is uncertain. Each of the
// latter may have happened at any time, which is what makes a long history slow to check.
const (
	mostOps    = 400
	mostDoubts = 6
)

// slot is a place for registers, one after another. Safe for concurrent use.
type slot struct {
	group shard.Group
	index int
	turns chan struct{} // has room for mostAtOnce

	mu         sync.Mutex // guards the rest
	generation int
	key        string
	ops        int
	doubts     int
	oks        int           // of all generations
	last       time.Duration // when the last that succeeded was sent
}

func newLoad(f *fleet, c *client, r *recorder, g shard.Group) *load {
	l := &load{fleet: f, client: c, recorder: r}
	for i := range g.Shards * slotsPerShard {
		s := &slot{group: g, index: i, turns: make(chan struct{}, mostAtOnce)}
		s.key = registerName(g, i, 0)
		l.slots = append(l.slots, s)
	}
	return l
}

// register is the one that the slot is at.
func (s *slot) register() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key
}

func (s *slot) done(o op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Outcome == ok {
		s.oks++
		s.last = max(s.last, o.Call)
	}
	if o.Key != s.key {
		return
	}
	s.ops++
	if o.Outcome == uncertain && o.Kind != opRead {
		s.doubts++
	}
	if s.ops >= mostOps || s.doubts >= mostDoubts {
		s.generation++
		s.key = registerName(s.group, s.index, s.generation)
		s.ops, s.doubts = 0, 0
	}
}

func (s *slot) counts() (oks int, last time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.oks, s.last
}

// run has n clients work until ctx ends, and waits for them: each finishes what it has sent.
func (l *load) run(ctx context.Context, n int, seed uint64) {
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				l.one(i, random)
				pause(ctx, 20*ms+time.Duration(random.Int64N(int64(80*ms))))
			}
		})
	}
	clients.Wait()
}

// one sends one operation.
func (l *load) one(client int, random *rand.Rand) {
	to := l.fleet.pick()
	if to == nil {
		return
	}
	s := l.slots[random.IntN(len(l.slots))]
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	default:
		return
	}
	id := l.ids.Add(1)
	o := op{ID: fmt.Sprintf("c%d-%d", client, id), Client: client, Key: s.register()}
	switch n := random.IntN(10); {
	case n < 4:
		o.Kind = opRead
	case n < 7:
		o.Kind, o.Arg = opAdd, 1+random.Int64N(9)
	default:
		o.Kind, o.Arg = opWrite, id*1000 // no two alike
	}
	o.Call = l.recorder.now()
	l.client.send(context.Background(), to, &o)
	o.Return = l.recorder.now()
	l.recorder.add(o)
	s.done(o)
	if o.Outcome != ok && l.strict != nil {
		l.strict(o)
	}
}
