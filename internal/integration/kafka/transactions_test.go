package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

func (b *brokers) transformer(g shard.Group) *transformer {
	b.t.Helper()
	x := &transformer{clients: new(sync.WaitGroup), opts: b.opts, id: name("transform"), out: b.topic("out", g.Shards), positions: b.topic("positions", g.Shards, "cleanup.policy", "compact")}
	b.t.Cleanup(x.clients.Wait) // a client tells the brokers its metrics before it is closed
	return x
}

// committed is the output for readers of committed records.
func (x *transformer) committed(t *testing.T, partition int) (values []string) {
	t.Helper()
	recs, err := readCommitted(t.Context(), x.opts, x.out, int32(partition))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		values = append(values, string(r.Value))
	}
	return values
}

// wantCommitted waits until there is as much: a commit is acknowledged before its records can be read.
func (x *transformer) wantCommitted(t *testing.T, partition int, want []string) {
	t.Helper()
	until(t, "all is committed", func() bool { return len(x.committed(t, partition)) >= len(want) })
	if diff := cmp.Diff(want, x.committed(t, partition)); diff != "" {
		t.Errorf("committed output of partition %d (-want +got):\n%s", partition, diff)
	}
}

// Nodes come and go, one without a word, and who reads committed records sees the output of each input once, in the order of the input.
func TestTransform_EachInputsOutputIsCommittedOnce(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", orders.Shards)
		x, producer := b.transformer(orders), b.producer(orders)
		f := newFleet(t, orders)
		join := func() *node {
			consumer := f.store.Client() // what open asks is another connection than the node's, which may be cut
			t.Cleanup(func() { consumer.Close() })
			return f.join(topic, x.open(consumer), b.config())
		}
		stays := join()
		f.settle(stays)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var load sync.WaitGroup
		load.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				<-tick.C
				produce(t, producer, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%50), Value: fmt.Append(nil, i)})
			}
		})
		for i := range 4 {
			n := join()
			until(t, "the newcomer serves", func() bool { return n.serves() > 0 })
			if i%2 == 1 {
				n.client.Cut(true)
				until(t, "the other serves all", func() bool { return stays.serves() == orders.Shards })
				n.client.Cut(false)
			}
			f.stop(n)
		}
		stop()
		load.Wait()
		for p := range orders.Shards {
			var want []string
			for _, r := range b.read(topic, p) {
				want = append(want, fmt.Sprintf("%d: %s", r.Offset, r.Value))
			}
			x.wantCommitted(t, p, want)
		}
	})
}

func input(from, to int64) (recs []*kgo.Record) {
	for at := from; at < to; at++ {
		recs = append(recs, &kgo.Record{Offset: at, Key: []byte("k"), Value: []byte("v")})
	}
	return recs
}

func output(to int64) (values []string) {
	for at := range to {
		values = append(values, fmt.Sprintf("%d: v", at))
	}
	return values
}

func held(context.Context) error { return nil }

var errTaken = errors.New("another owner has the shard")

func taken(context.Context) error { return errTaken }

// begins is begin of a test's owner.
func (x *transformer) begins(t *testing.T, from int64, holds func(context.Context) error) *producing {
	t.Helper()
	p, at, err := x.begin(t.Context(), 0, holds)
	if err != nil || at != from {
		t.Fatalf("begin: position %d, %v, want %d", at, err, from)
	}
	t.Cleanup(p.client.Close)
	return p
}

func (p *producing) must(t *testing.T, recs []*kgo.Record) {
	t.Helper()
	if err := p.process(t.Context(), recs); err != nil {
		t.Fatalf("process: %v", err)
	}
}

func (p *producing) fails(t *testing.T, who string, recs []*kgo.Record) {
	t.Helper()
	for range 3 { // a client may try to get a new id by itself
		if err := p.process(t.Context(), recs); err == nil {
			t.Errorf("process by %s: got nil, want that it is fenced", who)
		}
	}
}

// A zombie that has begun before its successor commits nothing, wherever it was stopped. A plain reader sees what it had produced.
func TestTransform_ZombieCommitsNothing(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		x := b.transformer(single)
		zombie := x.begins(t, -1, held)
		zombie.must(t, input(0, 2))
		if err := zombie.produce(t.Context(), input(2, 4)); err != nil { // and is stopped before its commit
			t.Fatal(err)
		}
		heir := x.begins(t, 2, held)
		if err := zombie.client.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
			t.Error("commit of the zombie: got nil, want that it is fenced")
		}
		heir.must(t, input(2, 3))
		zombie.fails(t, "the zombie", input(2, 4))
		heir.must(t, input(3, 5))
		x.wantCommitted(t, 0, output(5))
		var plain []string
		for _, r := range b.readKept(x.out, 0) {
			plain = append(plain, string(r.Value))
		}
		if got := strings.Count(strings.Join(plain, " "), "2: v"); got < 2 {
			t.Errorf("a plain reader: got %q, want the zombie's output too", plain)
		}
	})
}

// A zombie that wakes before it has begun begins last, and so fences the rightful owner: Kafka goes by who came last. Asking for the shard after that
// has it produce nothing; the owner's tenure ends, and the next one goes on. Without asking, the zombie would be the one that transforms.
func TestTransform_ZombieThatBeginsLast(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		x := b.transformer(single)
		heir := x.begins(t, -1, held)
		heir.must(t, input(0, 2))
		if _, _, err := x.begin(t.Context(), 0, taken); !errors.Is(err, errTaken) {
			t.Errorf("begin of the zombie: got %v, want %v", err, errTaken)
		}
		heir.fails(t, "the owner whom the zombie has fenced", input(2, 4))
		again := x.begins(t, 2, held)
		again.must(t, input(2, 4))
		x.wantCommitted(t, 0, output(4))

		x.control = true
		zombie := x.begins(t, 4, taken)
		zombie.must(t, input(4, 5)) // its output counts, and the owner's doesn't
		again.fails(t, "the owner", input(4, 5))
		x.wantCommitted(t, 0, output(5))
	})
}

// An id for each tenure would fence nobody: the older one commits after the newer, what the newer has committed already.
func TestTransform_AnIDForEachTenureFencesNobody(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		x := b.transformer(single)
		older, newer := *x, *x
		older.id, newer.id = x.id+"-7", x.id+"-8"
		zombie := older.begins(t, -1, held)
		heir := newer.begins(t, -1, held)
		heir.must(t, input(0, 2))
		zombie.must(t, input(0, 2))
		x.wantCommitted(t, 0, append(output(2), output(2)...))
	})
}

// readKept is read of a partition that has control records.
func (b *brokers) readKept(topic string, partition int) []*kgo.Record {
	b.t.Helper()
	end := b.ends(topic)[partition]
	cl := b.client(kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {int32(partition): kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	var recs []*kgo.Record
	for kafka.Next(recs) < end {
		recs = append(recs, cl.PollFetches(b.t.Context()).Records()...)
	}
	return recs
}
