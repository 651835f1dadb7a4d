package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// Positions are mirrored to a consumer group for tools that know groups, and never read back: what somebody commits there
// changes nothing.
func TestConsumer_MirrorsPositionsToALagGroup(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic, group := b.topic("orders", orders.Shards), name("lag")
		l, book, producer := newLedger(), newBook(), b.producer(orders)
		produce(t, producer, book.entries(topic, 50, 200)...)
		c := b.config()
		c.LagGroup = group
		f := newFleet(t, orders)
		n := f.join(topic, l.open, c)
		book.check(t, l)
		committed := func() map[int]int64 {
			offsets, err := b.admin.FetchOffsets(t.Context(), group)
			if err != nil {
				return nil
			}
			at := make(map[int]int64)
			for p, o := range offsets[topic] {
				at[int(p)] = o.At
			}
			return at
		}
		ends := b.ends(topic)
		until(t, "positions are committed", func() bool { return cmp.Equal(ends, committed()) })
		for s, lag := range n.consumer.Lag() {
			if lag != 0 {
				t.Errorf("lag of shard %d: got %d, want 0", s, lag)
			}
		}
		f.stop(n)
		var nonsense kadm.Offsets
		nonsense.AddOffset(topic, 0, 100_000, -1)
		if err := b.admin.CommitAllOffsets(t.Context(), group, nonsense); err != nil {
			t.Fatal(err)
		}
		f.join(topic, l.open, c)
		produce(t, producer, book.entries(topic, 50, 200)...)
		book.check(t, l)
	})
}

// polled counts what a client hands out of partition 0.
type polled struct{ n atomic.Int64 }

// OnFetchRecordUnbuffered is a hook of kgo.
func (p *polled) OnFetchRecordUnbuffered(r *kgo.Record, out bool) {
	if out && r.Partition == 0 {
		p.n.Add(1)
	}
}

// A shard whose Process is slow holds up no other, and little more than Buffer is fetched ahead for it.
func TestConsumer_ASlowShardHoldsUpNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		two := shard.Group{Name: "two", Shards: 2}
		topic := b.topic("orders", two.Shards)
		l, slowBook, quickBook, producer := newLedger(), newBook(), newBook(), b.producer(two)
		key := func(s int) string {
			for i := 0; ; i++ {
				if k := fmt.Sprintf("key-%d", i); two.Of(k) == s {
					return k
				}
			}
		}
		slow, quick := key(0), key(1)
		gate := make(chan struct{})
		var inside atomic.Int64
		open := func(ctx context.Context, tn *owner.Tenure) (kafka.Partition, error) {
			p, err := l.open(ctx, tn)
			process := p.Process
			p.Process = func(ctx context.Context, recs []*kgo.Record) error {
				if tn.Token().Shard == 0 {
					inside.Add(int64(len(recs)))
					<-gate
				}
				return process(ctx, recs)
			}
			return p, err
		}
		c := b.config()
		c.Buffer, c.MaxBatch = 64<<10, 10
		ahead := new(polled)
		c.Client = append(slices.Clip(c.Client), kgo.WithHooks(ahead))
		f := newFleet(t, two)
		n := f.join(topic, open, c)
		var recs []*kgo.Record
		const backlog = 8000 // 10 MB
		for range backlog {
			r := slowBook.entry(topic, slow)
			padding := make([]byte, 1<<10)
			_, _ = rand.Read(padding) // never fails. Not zeros: a fetch is bounded by compressed bytes
			r.Headers = []kgo.RecordHeader{{Key: "padding", Value: padding}}
			recs = append(recs, r)
		}
		produce(t, producer, recs...)
		until(t, "the slow shard is at it", func() bool { return inside.Load() > 0 })
		for range 20 {
			produce(t, producer, quickBook.entry(topic, quick))
			until(t, "the quick shard goes on", func() bool { return l.applied() >= quickBook.count })
		}
		until(t, "the log's end is known", func() bool { return n.consumer.Lag()[0] == backlog })
		if got := ahead.n.Load(); got > backlog/2 {
			t.Errorf("fetched ahead of a shard that stands: %d records, want at most what two fetches bring", got)
		}
		close(gate)
		until(t, "the slow shard has caught up", func() bool { return l.applied() >= slowBook.count+quickBook.count })
		want := map[string]account{slow: slowBook.want[slow], quick: quickBook.want[quick]}
		if diff := cmp.Diff(want, l.all()); diff != "" {
			t.Errorf("ledger (-want +got):\n%s", diff)
		}
		if n := l.again(); n != 0 {
			t.Errorf("records that Process was given more than once: got %d, want 0", n)
		}
	})
}

// Positions in the coordination store are under the claim: an owner that was replaced can't move them.
func TestPositions_AreGuarded(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", 1)
		book, producer := newBook(), b.producer(single)
		f := newFleet(t, single)
		positions := kafka.OnStore(f.store.Client(), "/positions", "orders")
		var applied atomic.Int64
		open := func(ctx context.Context, tn *owner.Tenure) (kafka.Partition, error) {
			from, err := positions.Load(ctx, tn)
			return kafka.Partition{From: from, Process: func(ctx context.Context, recs []*kgo.Record) error {
				applied.Add(int64(len(recs)))
				return positions.Save(ctx, tn, kafka.Next(recs))
			}}, err
		}
		first := f.join(topic, open, b.config())
		produce(t, producer, book.entries(topic, 5, 50)...)
		until(t, "all is applied", func() bool { return applied.Load() == book.count })
		old := first.tenure(0)
		f.stop(first)
		f.join(topic, open, b.config())
		produce(t, producer, book.entries(topic, 5, 50)...)
		until(t, "all is applied", func() bool { return applied.Load() == book.count })
		if err := positions.Save(t.Context(), old, 3); err == nil {
			t.Error("Save under a claim that is gone: got nil, want an error")
		}
	})
}

// The state in the changelog and the position in the input are one: state rebuilt by another owner is what a serial replay gives.
func TestChangelog_KeepsAConsumersState(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic, changes := b.topic("orders", orders.Shards), b.changelog(orders)
		book, producer := newBook(), b.producer(orders)
		f := newFleet(t, orders)
		var nodes []*node
		for range 2 {
			l, err := kafka.OpenChangelog(t.Context(), orders, changes, kafka.ChangelogConfig{Client: b.opts})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			s := &sums{log: l}
			consumer, err := kafka.NewConsumer(t.Context(), orders, topic, s.open, b.config())
			if err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, f.run(consumer, consumer.Serve, owner.Config{Prepare: s.prepare(consumer)}))
		}
		f.settle(nodes...)
		for range 5 {
			produce(t, producer, book.entries(topic, 50, 100)...)
		}
		f.stop(nodes[0])
		produce(t, producer, book.entries(topic, 50, 100)...)
		f.settle(nodes[1])

		want := book.want
		check := func() map[string]account {
			got := make(map[string]account)
			for s := range orders.Shards {
				l, err := kafka.OpenChangelog(t.Context(), orders, changes, kafka.ChangelogConfig{Client: b.opts})
				if err != nil {
					t.Fatal(err)
				}
				st := make(map[string]account)
				_, err = l.Follow(t.Context(), s, nil, func(r *kgo.Record) error { return restoreSum(st, r) })
				l.Close()
				if err != nil {
					t.Fatal(err)
				}
				for k, a := range st {
					got[k] = a
				}
			}
			return got
		}
		until(t, "the changelog has all", func() bool {
			var n int64
			for _, a := range check() {
				n += a.Seq
			}
			return n >= book.count
		})
		if diff := cmp.Diff(want, check()); diff != "" {
			t.Errorf("state in the changelog (-want +got):\n%s", diff)
		}
	})
}
