package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
)

// opens is an Open that returns always the same.
func opens(p kafka.Partition) kafka.Open {
	return func(context.Context, *owner.Tenure) (kafka.Partition, error) { return p, nil }
}

// consumers makes one for each topic, closed at the test's end: after the fleet's nodes have stopped, if that is made later.
func (b *brokers) consumers(topics []string, open ...kafka.Open) []*kafka.Consumer {
	b.t.Helper()
	var cs []*kafka.Consumer
	for i, topic := range topics {
		c, err := kafka.NewConsumer(b.t.Context(), single, topic, open[i], b.config())
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { c.Close() })
		cs = append(cs, c)
	}
	return cs
}

// A shard is ready once all of its topics are open, and not before; then it consumes them all.
func TestTogether_IsReadyOnceAllAreOpen(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topics := []string{b.topic("orders", 1), b.topic("payments", 1)}
		var processed [2]atomic.Int64
		counts := func(i int) kafka.Partition {
			return kafka.Partition{Process: func(_ context.Context, recs []*kgo.Record) error {
				processed[i].Add(int64(len(recs)))
				return nil
			}}
		}
		opening, open := make(chan struct{}), make(chan struct{})
		cs := b.consumers(topics, opens(counts(0)), func(context.Context, *owner.Tenure) (kafka.Partition, error) {
			close(opening)
			<-open
			return counts(1), nil
		})
		book, producer := newBook(), b.producer(single)
		for _, topic := range topics {
			produce(t, producer, book.entries(topic, 5, 10)...)
		}
		n := newFleet(t, single).run(nil, kafka.Together(cs...), owner.Config{})
		<-opening
		if n.serves() != 0 || processed[0].Load() != 0 {
			t.Errorf("while one is not open: %d shards are ready, %d records of the other processed; want none", n.serves(), processed[0].Load())
		}
		close(open)
		until(t, "both topics are consumed", func() bool { return processed[0].Load() == 10 && processed[1].Load() == 10 })
		until(t, "the shard is ready", func() bool { return n.serves() == 1 })
	})
}

// The second topic can't be opened here. It is a failed start, so after a few of them the shard goes to where it can be.
func TestTogether_MovesToWhereAllCanBeOpened(t *testing.T) {
	b := fake(t)
	topics := []string{b.topic("orders", 1), b.topic("payments", 1)}
	good := opens(kafka.Partition{Process: func(context.Context, []*kgo.Record) error { return nil }})
	var tries atomic.Int64
	bad := func(context.Context, *owner.Tenure) (kafka.Partition, error) {
		tries.Add(1)
		return kafka.Partition{}, errors.New("no table")
	}
	here, there := b.consumers(topics, good, bad), b.consumers(topics, good, good)
	f := newFleet(t, single)
	f.run(nil, kafka.Together(here...), owner.Config{})
	until(t, "it was tried here", func() bool { return tries.Load() > 0 })
	heir := f.run(nil, kafka.Together(there...), owner.Config{})
	until(t, "the shard is where it can be opened", func() bool { return heir.serves() == 1 })
}

// A panic of Open, of Advance, or of Process ends the tenure, and not the process that also has others.
func TestTogether_OutlivesPanics(t *testing.T) {
	b := fake(t)
	topics := []string{b.topic("orders", 1), b.topic("payments", 1)}
	var opened, processed atomic.Int64
	quiet := opens(kafka.Partition{Process: func(context.Context, []*kgo.Record) error { return nil }})
	open := func(context.Context, *owner.Tenure) (kafka.Partition, error) {
		try := opened.Add(1)
		if try == 1 {
			panic("Open")
		}
		return kafka.Partition{
			From: -1,
			Process: func(context.Context, []*kgo.Record) error {
				if try == 3 {
					panic("Process")
				}
				processed.Add(1)
				return nil
			},
			Advance: func(context.Context, int64) error {
				if try == 2 {
					panic("Advance")
				}
				return nil
			},
		}, nil
	}
	cs := b.consumers(topics, quiet, open)
	produce(t, b.producer(single), newBook().entries(topics[1], 5, 1)...)
	newFleet(t, single).run(nil, kafka.Together(cs...), owner.Config{})
	until(t, "it goes on in a fourth tenure", func() bool { return processed.Load() > 0 })
	if opened.Load() != 4 {
		t.Errorf("opened %d times, want 4: three tenures ended by a panic", opened.Load())
	}
}
