package kafka

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// single is a group whose records are all in one partition, so that their order is the test's.
var single = shard.Single("single")

// headers is what a dead letter says of its record, without the error's text.
func headers(r *kgo.Record) map[string]string {
	h := make(map[string]string)
	for _, rh := range r.Headers {
		h[rh.Key] = string(rh.Value)
	}
	return h
}

// A record that can't be applied ends in the dead-letter topic, with headers of where, why and how often. What comes before
// and after it is applied once.
func TestConsumer_PutsABadRecordAway(t *testing.T) {
	for _, tc := range []struct {
		name  string
		apply func(r *kgo.Record) error
		tries string
		why   string
	}{
		{"by splitting", func(*kgo.Record) error { return errValue }, "2", "kafka: not applied: " + errValue.Error()},
		{"at once where it is named", func(r *kgo.Record) error { return kafka.Bad(r, errValue) }, "1", errValue.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			each(t, func(t *testing.T, b *brokers) {
				topic, dead := b.topic("orders", 1), b.topic("dead", 1)
				l, book, producer := newLedger(), newBook(), b.producer(single)
				recs := book.entries(topic, 5, 40)
				bad := &kgo.Record{
					Topic: topic, Key: []byte("key-0"), Value: []byte("nonsense"),
					Headers: []kgo.RecordHeader{{Key: "mine", Value: []byte("yes")}},
				}
				recs = append(recs, bad)
				recs = append(recs, book.entries(topic, 5, 40)...)
				l.refuse = func(r *kgo.Record) error {
					if string(r.Value) == "nonsense" {
						return tc.apply(r)
					}
					return nil
				}
				produce(t, producer, recs...)

				c := b.config()
				c.DeadLetter, c.Tries = dead, 2
				f := newFleet(t, single)
				n := f.join(topic, l.open, c)
				book.check(t, l)

				letters := b.read(dead, 0)
				if len(letters) != 1 {
					t.Fatalf("dead letters: got %d, want 1", len(letters))
				}
				got := headers(letters[0])
				want := map[string]string{
					"mine": "yes", kafka.DeadTopic: topic, kafka.DeadPartition: "0", kafka.DeadOffset: "40", kafka.DeadTries: tc.tries, kafka.DeadError: tc.why,
					kafka.DeadEpoch: n.tenure(0).Token().Epoch.Decimal(), kafka.DeadTime: fmt.Sprint(bad.Timestamp.UnixMilli()),
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
				if string(letters[0].Key) != "key-0" || string(letters[0].Value) != "nonsense" {
					t.Errorf("dead letter: got %q: %q, want the record as it was", letters[0].Key, letters[0].Value)
				}
			})
		})
	}
}

// Without a dead-letter topic the shard stops at the bad record and says so, and Seek takes it past.
func TestConsumer_StopsAtABadRecord(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", 1)
		l, book, producer := newLedger(), newBook(), b.producer(single)
		l.refuse = func(r *kgo.Record) error {
			if string(r.Value) == "nonsense" {
				return kafka.Bad(r, errValue)
			}
			return nil
		}
		produce(t, producer, book.entries(topic, 5, 10)...)
		produce(t, producer, &kgo.Record{Topic: topic, Key: []byte("key-0"), Value: []byte("nonsense")})
		f := newFleet(t, single)
		n := f.join(topic, l.open, b.config())
		book.check(t, l)
		until(t, "the shard stands still", func() bool { return n.consumer.Stopped()[0] != nil })
		if err := n.consumer.Stopped()[0]; !errors.Is(err, errValue) || !strings.Contains(err.Error(), "@10") {
			t.Errorf("Stopped: got %v, want the error and the offset", err)
		}
		if err := n.consumer.Seek(t.Context(), 0, 5); err == nil {
			t.Error("Seek backwards: got nil, want an error")
		}
		if err := n.consumer.Seek(t.Context(), 0, 11); err != nil {
			t.Fatalf("Seek: %v", err)
		}
		produce(t, producer, book.entries(topic, 5, 10)...)
		book.check(t, l)
		until(t, "the shard goes on", func() bool { return n.consumer.Stopped()[0] == nil })
	})
}

// An error that leaves the outcome open, or a panic, ends the tenure. The next one is told whether it was applied, and a record
// that ends one tenure after another is put away all the same.
func TestConsumer_PutsAwayWhatEndsTenures(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic, dead := b.topic("orders", 1), b.topic("dead", 1)
		l, book, producer := newLedger(), newBook(), b.producer(single)
		recs := book.entries(topic, 5, 1)
		recs = append(recs, &kgo.Record{Topic: topic, Key: []byte("key-0"), Value: []byte("nonsense")})
		recs = append(recs, book.entries(topic, 5, 1)...)
		produce(t, producer, recs...)
		l.refuse = func(r *kgo.Record) error {
			if string(r.Value) == "nonsense" {
				panic("boom")
			}
			return nil
		}
		c := b.config()
		c.DeadLetter, c.Tries, c.MaxBatch = dead, 2, 2
		f := newFleet(t, single)
		f.join(topic, l.open, c)
		book.check(t, l)
		if letters := b.read(dead, 0); len(letters) != 1 || !strings.Contains(headers(letters[0])[kafka.DeadError], "boom") {
			t.Errorf("dead letters: got %d, want 1 that says boom", len(letters))
		}
	})
}

// While what is written to is down nothing is put away, whatever fails.
func TestConsumer_KeepsRecordsThroughAnOutage(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic, dead := b.topic("orders", 1), b.topic("dead", 1)
		l, book, producer := newLedger(), newBook(), b.producer(single)
		var down atomic.Bool
		var failures atomic.Int64
		l.refuse = func(*kgo.Record) error {
			if down.Load() {
				failures.Add(1)
				return errors.New("the database is down")
			}
			return nil
		}
		produce(t, producer, book.entries(topic, 5, 10)...)
		c := b.config()
		c.DeadLetter, c.Tries = dead, 2
		f := newFleet(t, single)
		n := f.join(topic, l.open, c)
		book.check(t, l)
		down.Store(true)
		produce(t, producer, book.entries(topic, 5, 10)...)
		until(t, "the shard stands still", func() bool { return n.consumer.Stopped()[0] != nil })
		tried := failures.Load()
		until(t, "it is tried again", func() bool { return failures.Load() > tried })
		down.Store(false)
		book.check(t, l)
		if letters := b.read(dead, 0); len(letters) != 0 {
			t.Errorf("dead letters: got %d, want none", len(letters))
		}
	})
}

// A record that another hash has put into the partition, or that has no key, isn't the shard's.
func TestConsumer_RefusesMisplacedRecords(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic, dead := b.topic("orders", orders.Shards), b.topic("dead", 1)
		l, book, producer := newLedger(), newBook(), b.producer(orders)
		produce(t, producer, book.entries(topic, 20, 50)...)
		manual := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		key := "somebody"
		wrong := int32(orders.Of(key)+1) % int32(orders.Shards)
		produce(t, manual,
			&kgo.Record{Topic: topic, Partition: wrong, Key: []byte(key), Value: entry{1, 1}.value()},
			&kgo.Record{Topic: topic, Partition: wrong, Value: entry{1, 1}.value()})
		produce(t, producer, book.entries(topic, 20, 50)...)
		c := b.config()
		c.DeadLetter = dead
		f := newFleet(t, orders)
		f.join(topic, l.open, c)
		book.check(t, l)
		until(t, "both are put away", func() bool { return b.ends(dead)[0] == 2 })
		for _, r := range b.read(dead, 0) {
			if h := headers(r); h[kafka.DeadTries] != "0" || h[kafka.DeadPartition] != fmt.Sprint(wrong) {
				t.Errorf("dead letter: got tries %s, partition %s, want 0, %d", h[kafka.DeadTries], h[kafka.DeadPartition], wrong)
			}
		}
	})
}
