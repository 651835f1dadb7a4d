package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenure-go/tenure/router/kafka"
)

// The records are Process's own: it may put them in an order that suits it, and even forget them.
func TestConsumer_ProcessMayReorderItsRecords(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic, producer := b.topic("orders", 1), b.producer(single)
		for i := range 9 { // keys fall as offsets rise
			produce(t, producer, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", 9-i)})
		}
		var mu sync.Mutex
		times := make(map[int64]int)
		n := newFleet(t, single).join(topic, opens(kafka.Partition{Process: func(_ context.Context, recs []*kgo.Record) error {
			slices.SortFunc(recs, func(a, b *kgo.Record) int { return cmp.Compare(string(a.Key), string(b.Key)) })
			mu.Lock()
			defer mu.Unlock()
			for _, r := range recs {
				times[r.Offset]++
			}
			clear(recs)
			return nil
		}}), b.config())
		until(t, "all are consumed", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(times) == 9
		})
		produce(t, producer, &kgo.Record{Topic: topic, Key: []byte("key-0")})
		until(t, "one more is", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return times[9] > 0
		})
		if err := n.consumer.Stopped()[0]; err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		want := make(map[int64]int)
		for offset := range int64(10) {
			want[offset] = 1
		}
		if diff := gocmp.Diff(want, times); diff != "" {
			t.Errorf("how often each was processed (-want +got):\n%s", diff)
		}
	})
}

// That the log has lost its end is remembered also if the broker can't say just then where it ends.
func TestConsumer_RemembersALostEndThatItCannotAskFor(t *testing.T) {
	b := fake(t)
	topic := b.topic("orders", 1)
	producer, book := b.producer(single), newBook()
	produce(t, producer, book.entries(topic, 5, 10)...)
	b.fake.ControlKey(int16(kmsg.ListOffsets), func(k kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		req := k.(*kmsg.ListOffsetsRequest)
		if req.Topics[0].Partitions[0].Timestamp != -1 { // the end
			return nil, nil, false
		}
		return listed(req, -1, kerr.UnknownServerError.Code), nil, true
	})
	var tries, processed atomic.Int64
	c := b.config()
	c.Hooks.Stopped = func(_ int, err error) {
		if err != nil {
			tries.Add(1)
		}
	}
	newFleet(t, single).join(topic, opens(kafka.Partition{From: 15, Process: func(_ context.Context, recs []*kgo.Record) error {
		processed.Add(int64(len(recs)))
		return nil
	}}), c)
	until(t, "the shard stands still", func() bool { return tries.Load() > 0 })
	produce(t, producer, book.entries(topic, 5, 10)...)
	tried := tries.Load()
	until(t, "it was tried again, or went on", func() bool { return tries.Load() >= tried+3 || processed.Load() > 0 })
	if got := processed.Load(); got != 0 {
		t.Errorf("records processed by a shard whose log has lost its end: got %d, want 0", got)
	}
}
