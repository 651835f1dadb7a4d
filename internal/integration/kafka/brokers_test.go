package kafka

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// fresh has a client ask for metadata each time, and not remember it for seconds.
var fresh = kgo.MetadataMinAge(10 * time.Millisecond)

// brokers is one Kafka cluster, for one test.
type brokers struct {
	t     testing.TB
	opts  []kgo.Opt
	admin *kadm.Client
	fake  *kfake.Cluster // nil: a real one
}

// each runs a test on kfake and on a real broker.
func each(t *testing.T, test func(t *testing.T, b *brokers)) {
	t.Run("kfake", func(t *testing.T) { test(t, fake(t)) })
	t.Run("broker", func(t *testing.T) { test(t, real(t)) })
}

func fake(t testing.TB, opts ...kfake.Opt) *brokers {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &brokers{t: t, fake: c, opts: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}}
	b.admin = kadm.NewClient(b.client(fresh))
	return b
}

func real(t testing.TB) *brokers {
	t.Helper()
	addrs := os.Getenv("TENURE_TEST_KAFKA")
	if addrs == "" {
		missing := "TENURE_TEST_KAFKA is not set: bash .ci/kafka start DIR, then source DIR/env"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	b := &brokers{t: t, opts: []kgo.Opt{kgo.SeedBrokers(strings.Split(addrs, ",")...)}}
	b.admin = kadm.NewClient(b.client(fresh))
	return b
}

// client is one more, closed at the test's end.
func (b *brokers) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append(append([]kgo.Opt{kgo.ProducerLinger(0)}, b.opts...), opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

var names atomic.Int64

// name is one that no other test uses, on a broker that outlives the test.
func name(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, time.Now().UnixNano(), names.Add(1))
}

// topic makes one, and deletes it at the test's end.
func (b *brokers) topic(prefix string, partitions int, config ...string) string {
	b.t.Helper()
	topic := name(prefix)
	b.create(topic, partitions, config...)
	return topic
}

func (b *brokers) create(topic string, partitions int, config ...string) {
	b.t.Helper()
	conf := make(map[string]*string)
	for i := 0; i+1 < len(config); i += 2 {
		conf[config[i]] = &config[i+1]
	}
	resp, err := b.admin.CreateTopic(b.t.Context(), int32(partitions), -1, conf, topic)
	if err == nil {
		err = resp.Err
	}
	if err != nil {
		b.t.Fatalf("create topic %s: %v", topic, err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = b.admin.DeleteTopics(ctx, topic)
	})
	// A topic that was made is known to all brokers a little later.
	until(b.t, "the topic is there", func() bool {
		d, err := b.admin.ListTopics(b.t.Context(), topic)
		return err == nil && d[topic].Err == nil && len(d[topic].Partitions) == partitions
	})
}

// changelog makes a topic that is right for one.
func (b *brokers) changelog(g shard.Group) string {
	b.t.Helper()
	topic := name("changes")
	if err := kafka.CreateChangelog(b.t.Context(), b.client(), g, topic, -1); err != nil {
		b.t.Fatal(err)
	}
	until(b.t, "the topic is there", func() bool {
		d, err := b.admin.ListTopics(b.t.Context(), topic)
		return err == nil && d[topic].Err == nil && len(d[topic].Partitions) == g.Shards
	})
	return topic
}

// ends is where the partitions of a topic end.
func (b *brokers) ends(topic string) map[int]int64 {
	b.t.Helper()
	listed, err := b.admin.ListEndOffsets(b.t.Context(), topic)
	if err != nil || listed.Error() != nil {
		b.t.Fatalf("list offsets: %v, %v", err, listed.Error())
	}
	ends := make(map[int]int64)
	listed.Each(func(o kadm.ListedOffset) { ends[int(o.Partition)] = o.Offset })
	return ends
}

// produce writes records, and fails the test if one fails.
func produce(t testing.TB, cl *kgo.Client, recs ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// read is all of a topic's partition, from the start.
func (b *brokers) read(topic string, partition int) []*kgo.Record {
	b.t.Helper()
	end := b.ends(topic)[partition]
	cl := b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {int32(partition): kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	var recs []*kgo.Record
	for kafka.Next(recs) < end {
		fetches := cl.PollFetches(b.t.Context())
		if err := fetches.Err(); err != nil {
			b.t.Fatalf("read: %v", err)
		}
		recs = append(recs, fetches.Records()...)
	}
	return recs
}

// patience bounds every wait for a condition.
const patience = 60 * time.Second

// until waits for a condition.
func until(t testing.TB, what string, met func() bool) {
	t.Helper()
	within(t, patience, what, met)
}

func within(t testing.TB, patience time.Duration, what string, met func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !met() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}
