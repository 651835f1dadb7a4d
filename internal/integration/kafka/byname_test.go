package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tenure-go/tenure/router/kafka"
)

// Brokers before 3.1 are fetched from by the topic's name, so one that was made anew looks like a log that has lost its end. Its id tells, and to Seek, which
// an OffsetError advises, would be wrong.
func TestConsumer_TellsASuccessorThatIsFetchedByName(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", 1)
		l, book := newLedger(), newBook()
		produce(t, b.producer(single), book.entries(topic, 5, 10)...)
		c := b.config()
		c.Client = append(c.Client[:len(c.Client):len(c.Client)], kgo.MaxVersions(kversion.V3_0_0()))
		n := newFleet(t, single).join(topic, l.open, c)
		book.check(t, l)
		if _, err := b.admin.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		until(t, "the topic is gone", func() bool {
			d, err := b.admin.ListTopics(t.Context(), topic)
			return err == nil && errors.Is(d[topic].Err, kerr.UnknownTopicOrPartition)
		})
		b.create(topic, 1)
		until(t, "the shard stands still and says why", func() bool {
			_, ok := errors.AsType[*kafka.RecreatedError](n.consumer.Stopped()[0])
			return ok
		})
	})
}
