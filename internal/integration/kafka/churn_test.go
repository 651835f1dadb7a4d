package kafka

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Consumers got stuck, or rebalanced for ever, where members came and went. Here nodes do so all the time, some without a word, and
// each record has its effect once; when they stop, all is served.
func TestCase_goka267_franzgo995_NodesComeAndGo(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", orders.Shards)
		l, book, producer := newLedger(), newBook(), b.producer(orders)
		f := newFleet(t, orders)
		stays := f.join(topic, l.open, b.config())
		f.settle(stays)

		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var load sync.WaitGroup
		load.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				produce(t, producer, book.entries(topic, 50, 10)...)
			}
		})
		for i := range 6 {
			n := f.join(topic, l.open, b.config())
			until(t, "the newcomer serves", func() bool { return n.serves() > 0 })
			if i%3 == 2 {
				n.client.Cut(true) // its lease ends; it goes on until its trust does
				until(t, "the others serve all", func() bool { return stays.serves() == orders.Shards })
				n.client.Cut(false)
			}
			f.stop(n)
		}
		stop()
		load.Wait()
		f.settle(stays)
		book.check(t, l)
	})
}
