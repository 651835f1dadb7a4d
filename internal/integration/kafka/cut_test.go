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

// A log that has lost its end, as by an unclean election of a leader, gives offsets that were consumed to new records. Once it has grown past the
// position nobody could tell; so the shard that has seen it goes on only when an operator says that what came in between is to be left out.
func TestConsumer_DoesNotSkipWhatALogThatLostItsEndGetsAnew(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		for what, early := range map[string]bool{"once it has grown": false, "before it grows": true} {
			t.Run(what, func(t *testing.T) {
				b := &brokers{t: t, opts: b.opts, admin: b.admin, fake: b.fake}
				topic := b.topic("orders", 1)
				producer, book := b.producer(single), newBook()
				produce(t, producer, book.entries(topic, 5, 10)...)
				var first, processed, tries atomic.Int64
				c := b.config()
				c.Hooks.Stopped = func(_ int, err error) {
					if err != nil {
						tries.Add(1)
					}
				}
				f := newFleet(t, single)
				n := f.join(topic, func(context.Context, *owner.Tenure) (kafka.Partition, error) {
					return kafka.Partition{
						From: 15, // the record at 14 was consumed, and the log ends at 10
						Process: func(_ context.Context, recs []*kgo.Record) error {
							first.CompareAndSwap(0, recs[0].Offset)
							processed.Add(int64(len(recs)))
							return nil
						},
						Advance: func(context.Context, int64) error { return errors.New("there is nothing to advance to") },
					}, nil
				}, c)
				until(t, "the shard stands still", func() bool { return n.consumer.Stopped()[0] != nil })
				want := kafka.OffsetError{Topic: topic, Partition: 0, Position: 15, First: 0, End: 10}
				err := n.consumer.Stopped()[0]
				if got, ok := errors.AsType[*kafka.OffsetError](err); !ok || *got != want {
					t.Errorf("Stopped: got %v, want %v", err, &want)
				}
				for _, to := range []int64{10, 14, 16, 20} { // back; or past an end from which what comes would be left out
					if err := n.consumer.Seek(t.Context(), 0, to); err == nil {
						t.Errorf("Seek to %d: got nil, want a refusal", to)
					}
				}
				if early {
					tried := tries.Load()
					seek(t, n, 15)
					until(t, "it was tried again", func() bool { return tries.Load() > tried })
				}
				produce(t, producer, book.entries(topic, 5, 10)...)
				if !early {
					tried := tries.Load()
					until(t, "it was tried again", func() bool { return tries.Load() >= tried+3 })
					if got := processed.Load(); got != 0 {
						t.Errorf("records processed by a shard whose log has lost its end: got %d, want 0", got)
					}
					seek(t, n, 15)
				}
				until(t, "it goes on", func() bool { return processed.Load() >= 5 })
				if first.Load() != 15 || processed.Load() != 5 {
					t.Errorf("processed: %d records from %d on, want 5 from 15 on", processed.Load(), first.Load())
				}
				if err := n.consumer.Stopped()[0]; err != nil {
					t.Errorf("Stopped: got %v, want nil", err)
				}
				f.stop(n)
			})
		}
	})
}

func seek(t *testing.T, n *node, to int64) {
	t.Helper()
	if err := n.consumer.Seek(t.Context(), 0, to); err != nil {
		t.Fatalf("Seek to %d: %v", to, err)
	}
}
