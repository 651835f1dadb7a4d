package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// flaw is what was done to a record so that it can't be applied.
type flaw string

const (
	sound     flaw = ""
	malformed flaw = "malformed" // not JSON: Process says that it is bad
	refused   flaw = "refused"   // an amount that the database refuses, however often it is tried
	misplaced flaw = "misplaced" // in a partition that is not its key's, as by a producer with another hash
)

// item is a record to be produced.
type item struct {
	kind     kind
	customer string
	value    []byte
	flaw     flaw
}

// perShard is how many customers there are of each shard.
const perShard = 5

// customersOf invents customers, by shard.
func customersOf(g shard.Group) [][]string {
	all := make([][]string, g.Shards)
	for i, left := 1, perShard*g.Shards; left > 0; i++ {
		name := fmt.Sprintf("customer-%d", i)
		if s := g.Of(name); len(all[s]) < perShard {
			all[s] = append(all[s], name)
			left--
		}
	}
	return all
}

// plan invents n records. It depends on nothing but its arguments.
//
// One in a hundred is spoilt, and at least six: each flaw in both topics. None of the last fifth is, and that is held back until all
// nodes are there: a record is given up on at once only if another succeeds after it has failed, else after a minute. And the shards
// take turns, since three dead letters in a row are taken for a fault of the database.
func plan(g shard.Group, seed uint64, n int) []item {
	customers := customersOf(g)
	rng := rand.New(rand.NewPCG(seed, 1))
	spoilt := max(6, n/100)
	numbers := make(map[string]int64) // by kind and customer
	items := make([]item, n)
	done := 0
	for i := range items {
		it := item{kind: orders, customer: customers[rng.IntN(g.Shards)][rng.IntN(perShard)]}
		if rng.IntN(5) < 2 {
			it.kind = payments
		}
		e := event{Cents: 100 + rng.Int64N(10_000)}
		if done < spoilt && i >= n/20+done*n*3/4/spoilt {
			it.customer = customers[done%g.Shards][0]
			it.kind = []kind{orders, payments}[done%2]
			it.flaw = []flaw{malformed, refused, misplaced}[done%3]
			done++
		}
		e.ID = fmt.Sprintf("%.1s-%d", it.kind, i+1)
		of := string(it.kind) + it.customer
		e.Number = numbers[of] + 1
		if it.flaw == sound {
			numbers[of]++
		}
		if it.flaw == refused {
			e.Cents = -e.Cents
		}
		it.value, _ = json.Marshal(e) // it has no field that could fail
		if it.flaw == malformed {
			it.value = it.value[:len(it.value)/2]
		}
		items[i] = it
	}
	return items
}

// load produces what was planned.
type load struct {
	group   shard.Group
	topics  topics
	items   []item
	right   *kgo.Client   // with the group's Partitioner
	wrong   *kgo.Client   // for what is to be misplaced
	release chan struct{} // closed when the last fifth may come
	sent    atomic.Int64
	replies sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	poison map[place]flaw
	acked  int
	failed error
}

func newLoad(brokers []string, g shard.Group, t topics, items []item) (*load, error) {
	l := &load{group: g, topics: t, items: items, release: make(chan struct{}), poison: make(map[place]flaw)}
	var err error
	if l.right, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kafka.Partitioner(g))); err != nil {
		return nil, err
	}
	if l.wrong, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		l.right.Close()
		return nil, err
	}
	return l, nil
}

func (l *load) close() {
	l.right.Close()
	l.wrong.Close()
}

// run takes over as long as it was told to, and longer if the last fifth has to wait. It returns when all are acknowledged.
func (l *load) run(ctx context.Context, over time.Duration) error {
	last := time.Now()
	spent := time.Duration(0)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for next := 0; next < len(l.items); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := time.Now()
		if next < l.lastFifth() || l.released() {
			spent += now.Sub(last)
		}
		last = now
		due := min(len(l.items), int(float64(len(l.items))*float64(spent)/float64(over))+1)
		if !l.released() {
			due = min(due, l.lastFifth())
		}
		for ; next < due; next++ {
			l.send(ctx, l.items[next])
		}
		l.sent.Store(int64(next))
	}
	l.replies.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *load) lastFifth() int { return len(l.items) * 4 / 5 }

func (l *load) released() bool {
	select {
	case <-l.release:
		return true
	default:
		return false
	}
}

func (l *load) send(ctx context.Context, it item) {
	r := &kgo.Record{Topic: l.topics.of(it.kind), Key: []byte(it.customer), Value: it.value}
	client := l.right
	if it.flaw == misplaced {
		client, r.Partition = l.wrong, int32((l.group.Of(it.customer)+1)%l.group.Shards)
	}
	l.replies.Add(1)
	client.Produce(ctx, r, func(r *kgo.Record, err error) {
		defer l.replies.Done()
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case err != nil:
			l.failed = fmt.Errorf("produce a record: %w", err)
		case it.flaw != sound:
			l.poison[place{it.kind, r.Partition, r.Offset}] = it.flaw
			fallthrough
		default:
			l.acked++
		}
	})
}

// part is how much has been sent, 0 to 1.
func (l *load) part() float64 { return float64(l.sent.Load()) / float64(len(l.items)) }

// produced is how many records are acknowledged.
func (l *load) produced() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// sound is how many of those can be applied.
func (l *load) sound() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked - len(l.poison)
}

// spoilt is where the records are that must not be applied. For when run has returned.
func (l *load) spoilt() map[place]flaw {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.poison
}
