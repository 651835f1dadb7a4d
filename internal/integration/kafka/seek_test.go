package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router/kafka"
)

// allBad is a Process that can do nothing with any record, so that its shard stands still.
func allBad(_ context.Context, recs []*kgo.Record) error { return kafka.Bad(recs[0], errValue) }

// standing is a node whose only shard p has stopped, and counts how often its hook is told that the shard goes on.
func standing(t *testing.T, b *brokers, p kafka.Partition) (n *node, topic string, goesOn *atomic.Int64) {
	t.Helper()
	topic, goesOn = b.topic("orders", 1), new(atomic.Int64)
	produce(t, b.producer(single), newBook().entries(topic, 5, 10)...)
	c := b.config()
	c.Hooks.Stopped = func(_ int, err error) {
		if err == nil {
			goesOn.Add(1)
		}
	}
	n = newFleet(t, single).join(topic, opens(p), c)
	until(t, "the shard stands still", func() bool { return n.consumer.Stopped()[0] != nil })
	return n, topic, goesOn
}

// Once the position is past what has stopped a shard, it stands still no more, though there is nothing to consume yet.
func TestSeek_EndsTheStandstill(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		advance := func(context.Context, int64) error { return nil }
		n, _, goesOn := standing(t, b, kafka.Partition{Process: allBad, Advance: advance})
		seek(t, n, 10)
		if err := n.consumer.Stopped()[0]; err != nil || goesOn.Load() != 1 {
			t.Errorf("after Seek: Stopped says %v, and the hook was told %d times that it goes on; want nil, once", err, goesOn.Load())
		}
	})
}

// To go on where it stands nothing is stored, so no Advance is needed. To go on elsewhere one is.
func TestSeek_WithoutAdvance(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		n, topic, goesOn := standing(t, b, kafka.Partition{From: 15, Process: allBad})
		produce(t, b.producer(single), newBook().entries(topic, 5, 10)...)
		if err := n.consumer.Seek(t.Context(), 0, 16); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("Seek to 16 without an Advance: got %v, want a refusal", err)
		}
		seek(t, n, 15)
		if goesOn.Load() != 1 {
			t.Errorf("the hook was told %d times that it goes on, want once", goesOn.Load())
		}
	})
}

// An owner that finds out under Seek that it was replaced ends its tenure by that error, as it would under a batch.
func TestSeek_TellsTheTenureOfItsFence(t *testing.T) {
	b := fake(t)
	topic := b.topic("orders", 1)
	produce(t, b.producer(single), newBook().entries(topic, 5, 10)...)
	fenced := &fence.FencedError{Mine: 1, Current: 2}
	c := b.consumers([]string{topic}, opens(kafka.Partition{Process: allBad, Advance: func(context.Context, int64) error { return fenced }}))[0]
	returned := make(chan error, 1)
	newFleet(t, single).run(nil, func(ctx context.Context, tn *owner.Tenure) error {
		err := c.Serve(ctx, tn)
		select {
		case returned <- err:
		default:
		}
		return err
	}, owner.Config{})
	until(t, "the shard stands still", func() bool { return c.Stopped()[0] != nil })
	if err := c.Seek(t.Context(), 0, 10); !errors.Is(err, fenced) {
		t.Errorf("Seek: got %v, want %v", err, fenced)
	}
	if err := <-returned; !errors.Is(err, fenced) {
		t.Errorf("Serve: got %v, want %v", err, fenced)
	}
}

// Seek ends with the tenure that it has asked, also if Advance panics.
func TestSeek_EndsWithTheTenure(t *testing.T) {
	b := fake(t)
	topic := b.topic("orders", 1)
	produce(t, b.producer(single), newBook().entries(topic, 5, 10)...)
	n := newFleet(t, single).join(topic, opens(kafka.Partition{Process: allBad, Advance: func(context.Context, int64) error { panic("boom") }}), b.config())
	until(t, "the shard stands still", func() bool { return n.consumer.Stopped()[0] != nil })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	err := n.consumer.Seek(ctx, 0, 8)
	if err == nil || ctx.Err() != nil || cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("Seek whose Advance panics: got %v (%s) after %v, want an uncertain error as soon as the tenure has ended", err, cas.OutcomeOf(err), time.Since(began))
	}
}
