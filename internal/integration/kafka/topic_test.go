package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router/kafka"
)

// A topic that doesn't fit is refused at the start, with an error that says what to do.
func TestConsumer_RefusesTopics(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		few, many := b.topic("few", orders.Shards-1), b.topic("many", orders.Shards+1)
		l := newLedger()
		for topic, want := range map[string]*kafka.PartitionsError{
			few:  {Topic: few, Want: orders.Shards, Got: orders.Shards - 1},
			many: {Topic: many, Want: orders.Shards, Got: orders.Shards + 1},
		} {
			_, err := kafka.NewConsumer(t.Context(), orders, topic, l.open, b.config())
			if got, ok := errors.AsType[*kafka.PartitionsError](err); !ok || *got != *want || cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("NewConsumer on %s: got %v, want %v", topic, err, want)
			}
		}
		_, err := kafka.NewConsumer(t.Context(), orders, name("nowhere"), l.open, b.config())
		if !errors.Is(err, kerr.UnknownTopicOrPartition) || !strings.Contains(err.Error(), "create it") {
			t.Errorf("NewConsumer on a topic that isn't there: got %v", err)
		}
		c := b.config()
		c.DeadLetter = name("nowhere")
		if _, err := kafka.NewConsumer(t.Context(), orders, b.topic("orders", orders.Shards), l.open, c); !errors.Is(err, kerr.UnknownTopicOrPartition) || !strings.Contains(err.Error(), "any number of partitions") {
			t.Errorf("NewConsumer with a dead-letter topic that isn't there: got %v", err)
		}
	})
}

// What decides where to consume is not the user's client's business.
func TestConsumer_RefusesAGroup(t *testing.T) {
	b := fake(t)
	for what, opt := range map[string]kgo.Opt{"ConsumerGroup": kgo.ConsumerGroup("mine"), "ConsumeTopics": kgo.ConsumeTopics("mine")} {
		c := b.config()
		c.Client = append(c.Client, opt)
		if _, err := kafka.NewConsumer(t.Context(), orders, "orders", newLedger().open, c); err == nil || !strings.Contains(err.Error(), "not for you") {
			t.Errorf("NewConsumer with %s: got %v, want a refusal", what, err)
		}
	}
}

// Retention has deleted what was not consumed: nothing is skipped silently. An operator decides, by Seek.
func TestConsumer_StopsWhereTheLogIsGone(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", 1)
		l, book, producer := newLedger(), newBook(), b.producer(single)
		produce(t, producer, book.entries(topic, 5, 10)...)
		f := newFleet(t, single)
		first := f.join(topic, l.open, b.config())
		book.check(t, l)
		f.stop(first)

		produce(t, producer, newBook().entries(topic, 5, 10)...) // never to be seen
		deleted, err := b.admin.DeleteRecords(t.Context(), kadm.OffsetsFromRecords(kgo.Record{Topic: topic, Partition: 0, Offset: 14}))
		if err != nil || deleted.Error() != nil {
			t.Fatal(err, deleted.Error())
		}
		n := f.join(topic, l.open, b.config())
		until(t, "the shard stands still", func() bool { return n.consumer.Stopped()[0] != nil })
		err = n.consumer.Stopped()[0]
		want := kafka.OffsetError{Topic: topic, Partition: 0, Position: 10, First: 15, End: 20}
		if got, ok := errors.AsType[*kafka.OffsetError](err); !ok || *got != want {
			t.Errorf("Stopped: got %v, want %v", err, &want)
		}
		if got := l.applied(); got != book.count {
			t.Errorf("entries applied: got %d, want %d: nothing after the hole", got, book.count)
		}
		if err := n.consumer.Seek(t.Context(), 0, 20); err != nil {
			t.Fatal(err)
		}
		produce(t, producer, book.entries(topic, 5, 10)...)
		book.check(t, l)
	})
}

// A topic that was deleted and made anew is another log: the consumer that saw the old one stops, and positions named by Stream begin anew.
func TestConsumer_TellsATopicFromItsSuccessor(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", 1)
		l, book, producer := newLedger(), newBook(), b.producer(single)
		produce(t, producer, book.entries(topic, 5, 10)...)
		f := newFleet(t, single)
		n := f.join(topic, l.open, b.config())
		book.check(t, l)

		if _, err := b.admin.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		until(t, "the topic is gone", func() bool {
			d, err := b.admin.ListTopics(t.Context(), topic)
			return err == nil && errors.Is(d[topic].Err, kerr.UnknownTopicOrPartition)
		})
		b.create(topic, 1)
		until(t, "the shard stands still", func() bool { return n.consumer.Stopped()[0] != nil })
		until(t, "it says why", func() bool {
			_, ok := errors.AsType[*kafka.RecreatedError](n.consumer.Stopped()[0])
			return ok
		})
		until(t, "Err says so too", func() bool {
			_, ok := errors.AsType[*kafka.RecreatedError](n.consumer.Err())
			return ok
		})
		f.stop(n)

		f.join(topic, l.open, b.config())
		produce(t, b.producer(single), book.entries(topic, 5, 20)...) // more than the old one had
		book.check(t, l)
	})
}

// Partitions that were added are told, and what is in the right ones is consumed on.
func TestConsumer_SaysThatPartitionsWereAdded(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", orders.Shards)
		l, book, producer := newLedger(), newBook(), b.producer(orders)
		produce(t, producer, book.entries(topic, 20, 50)...)
		f := newFleet(t, orders)
		n := f.join(topic, l.open, b.config())
		book.check(t, l)
		if _, err := b.admin.CreatePartitions(t.Context(), 1, topic); err != nil {
			t.Fatal(err)
		}
		until(t, "the consumer says so", func() bool {
			e, ok := errors.AsType[*kafka.PartitionsError](n.consumer.Err())
			return ok && e.Got == orders.Shards+1
		})
		// A producer that has noticed fails; see TestPartitioner.
		fresh := b.producer(orders)
		err := fresh.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k")}).FirstErr()
		if err == nil || !strings.Contains(err.Error(), "choice of -2") {
			t.Errorf("produce to a topic with partitions added: got %v, want a failure", err)
		}
		manual := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		rec := book.entry(topic, "key-1")
		rec.Partition = int32(orders.Of("key-1"))
		produce(t, manual, rec)
		book.check(t, l)
	})
}

// Where a shard begins that has no position. What was chosen is stored, so "latest" is not another place for the next owner.
func TestConsumer_BeginsWhereItIsTold(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", 1)
		producer := b.producer(single)
		at := time.Now().Add(-time.Hour).Truncate(time.Second)
		var recs []*kgo.Record
		for i := range 10 {
			r := newBook().entry(topic, "key")
			r.Timestamp = at.Add(time.Duration(i) * time.Minute)
			recs = append(recs, r)
		}
		produce(t, producer, recs...)
		for what, tc := range map[string]struct {
			start kafka.Start
			want  int64
		}{
			"the earliest": {kafka.Start{}, 0},
			"an offset":    {kafka.Start{Offset: 7}, 7},
			"a time":       {kafka.Start{Time: at.Add(150 * time.Second)}, 3},
			"the latest":   {kafka.Start{Latest: true}, 10},
			"a late time":  {kafka.Start{Time: at.Add(2 * time.Hour)}, 10},
		} {
			t.Run(what, func(t *testing.T) {
				b := &brokers{t: t, opts: b.opts, admin: b.admin, fake: b.fake}
				l := newLedger()
				c := b.config()
				c.Start = tc.start
				f := newFleet(t, single)
				n := f.join(topic, l.open, c)
				stored := func() int64 {
					l.mu.Lock()
					defer l.mu.Unlock()
					for _, next := range l.positions {
						return next
					}
					return -1
				}
				until(t, "the start is stored", func() bool { return stored() >= 0 })
				until(t, "what comes after it is applied", func() bool { return l.applied() >= 10-tc.want })
				if got := l.applied(); got != 10-tc.want {
					t.Errorf("entries applied: got %d, want %d", got, 10-tc.want)
				}
				f.stop(n)
				if got := stored(); got != 10 {
					t.Errorf("position: got %d, want 10", got)
				}
			})
		}
	})
}

// TLS and SASL come by kgo's options; wrong credentials and missing rights are errors that say so, and lose nothing.
func TestConsumer_SaysWhatItMayNot(t *testing.T) {
	b := &brokers{t: t}
	b.fake = kfake.MustCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "secret"),
		kfake.User("PLAIN", "app", "pw", kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "other", Operation: kmsg.ACLOperationRead, Allow: true}))
	t.Cleanup(b.fake.Close)
	as := func(user, pw string) []kgo.Opt {
		return []kgo.Opt{kgo.SeedBrokers(b.fake.ListenAddrs()...), kgo.SASL(plain.Auth{User: user, Pass: pw}.AsMechanism())}
	}
	b.opts = as("root", "secret")
	b.admin = kadm.NewClient(b.client(fresh))
	topic := b.topic("orders", 1)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := kafka.NewConsumer(ctx, single, topic, newLedger().open, kafka.ConsumerConfig{Client: as("app", "wrong")})
	if err == nil || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("wrong password: got %v, want an error about the credentials", err)
	}
	_, err = kafka.NewConsumer(ctx, single, topic, newLedger().open, kafka.ConsumerConfig{Client: as("app", "pw")})
	if !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("no rights: got %v, want that the topic is refused", err)
	}

	// The right is taken away while it runs, and given back.
	l, book := newLedger(), newBook()
	producer := b.producer(single)
	f := newFleet(t, single)
	n := f.join(topic, l.open, kafka.ConsumerConfig{Client: as("root", "secret")})
	produce(t, producer, book.entries(topic, 5, 10)...)
	book.check(t, l)
	denied := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	produce(t, producer, book.entries(topic, 5, 10)...)
	until(t, "the shard stands still", func() bool { return errors.Is(n.consumer.Stopped()[0], kerr.TopicAuthorizationFailed) })
	if err := n.consumer.Stopped()[0]; !strings.Contains(err.Error(), "principal needs Read") {
		t.Errorf("Stopped: got %v, want what right is missing", err)
	}
	denied.Remove()
	book.check(t, l)
}
