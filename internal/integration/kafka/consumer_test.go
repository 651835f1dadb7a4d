package kafka

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

var orders = shard.Group{Name: "orders", Shards: 8}

func (b *brokers) producer(g shard.Group) *kgo.Client {
	return b.client(kgo.RecordPartitioner(kafka.Partitioner(g)))
}

// config is a consumer's that logs to the test.
func (b *brokers) config() kafka.ConsumerConfig {
	return kafka.ConsumerConfig{Client: b.opts}
}

// Every record has its effect once, in the order of its key, with several nodes, and what is produced while they run
// as well as what was there before.
func TestConsumer_AppliesEachRecordOnceInOrder(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", orders.Shards)
		l, book, producer := newLedger(), newBook(), b.producer(orders)
		produce(t, producer, book.entries(topic, 50, 500)...)

		f := newFleet(t, orders)
		f.settle(f.join(topic, l.open, b.config()), f.join(topic, l.open, b.config()))
		produce(t, producer, book.entries(topic, 50, 500)...)
		book.check(t, l)
		if n := l.again(); n != 0 {
			t.Errorf("records that Process was given more than once: got %d, want 0", n)
		}
	})
}

// A hand-off in good order goes on exactly where it stopped: Process is given each record once, though nodes come and go under load.
func TestConsumer_HandsOverExactly(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", orders.Shards)
		l, book, producer := newLedger(), newBook(), b.producer(orders)
		f := newFleet(t, orders)
		first := f.join(topic, l.open, b.config())
		f.settle(first)

		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var load sync.WaitGroup
		load.Go(func() {
			for ctx.Err() == nil {
				produce(t, producer, book.entries(topic, 50, 20)...)
			}
		})
		second := f.join(topic, l.open, b.config())
		f.settle(first, second)
		third := f.join(topic, l.open, b.config())
		f.settle(first, second, third)
		f.stop(first)
		f.settle(second, third)
		stop()
		load.Wait()
		book.check(t, l)
		if n := l.again(); n != 0 {
			t.Errorf("records that Process was given more than once: got %d, want 0", n)
		}
	})
}

// An owner that was replaced goes on consuming, since nothing tells it. What it does has no effect.
func TestConsumer_ZombieHasNoEffect(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", orders.Shards)
		l, book, producer := newLedger(), newBook(), b.producer(orders)
		f := newFleet(t, orders)
		zombie := f.join(topic, l.open, b.config())
		f.settle(zombie)
		produce(t, producer, book.entries(topic, 50, 200)...)
		book.check(t, l)

		now := zombie.client.Now()
		zombie.client.SetClock(func() time.Duration { return now }) // it never finds out that its trust has ended
		zombie.client.Cut(true)
		heir := f.join(topic, l.open, b.config())
		f.settle(heir)
		for range 5 {
			produce(t, producer, book.entries(topic, 50, 100)...)
			book.check(t, l)
		}
	})
}

// Once a hand-off has begun no batch is begun: what requests still do then, and a long batch after it, would be waited for one after the other.
func TestConsumer_BeginsNothingInAHandOff(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", 1)
		l, book, producer := newLedger(), newBook(), b.producer(single)
		f := newFleet(t, single)
		first := f.join(topic, l.open, b.config())
		produce(t, producer, book.entries(topic, 5, 10)...)
		book.check(t, l)
		f.join(topic, l.open, b.config())

		inside, leave := make(chan struct{}), make(chan struct{})
		var request sync.WaitGroup
		request.Go(func() {
			_ = first.Do(context.Background(), "any", func(context.Context, *owner.Tenure) error {
				close(inside)
				<-leave
				return nil
			})
		})
		<-inside
		first.leave()
		<-first.tenure(0).Draining()
		for range 100 { // one by one, in which time they would be fetched and processed
			produce(t, producer, book.entries(topic, 5, 1)...)
		}
		if got := l.applied(); got != 10 {
			t.Errorf("applied while a request held the hand-off up: got %d, want 10", got)
		}
		close(leave)
		request.Wait()
		book.check(t, l)
	})
}

// A process that was stopped for longer than its lease finds out by the clock, before its next batch, whether or not its node has noticed.
func TestI3_ConsumerLooksAtTheClockBeforeEachBatch(t *testing.T) {
	b := fake(t)
	topic := b.topic("orders", 1)
	l, book, producer := newLedger(), newBook(), b.producer(single)
	produce(t, producer, book.entries(topic, 5, 20)...)
	f := newFleet(t, single)
	var mu sync.Mutex
	batches := make(map[shard.Epoch]int)
	var first shard.Epoch
	c := b.config()
	c.MaxBatch = 1
	f.join(topic, func(ctx context.Context, tn *owner.Tenure) (kafka.Partition, error) {
		p, err := l.open(ctx, tn)
		process := p.Process
		p.Process = func(ctx context.Context, recs []*kgo.Record) error {
			mu.Lock()
			batches[tn.Token().Epoch]++
			jump := first == 0
			if jump {
				first = tn.Token().Epoch
			}
			mu.Unlock()
			if jump {
				client := f.all()[0].client
				began, at := client.Now(), time.Now()
				client.SetClock(func() time.Duration { return began + time.Hour + time.Since(at) })
			}
			return process(ctx, recs)
		}
		return p, err
	}, c)
	book.check(t, l)
	if got := batches[first]; got != 1 {
		t.Errorf("batches in the tenure whose trust ended in the first one: got %d, want 1", got)
	}
}
