package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/examples/internal/wait"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// brokers are Kafka as the parent sees it: it makes the topics, and reads them in the end.
type brokers struct {
	addresses []string
	topics    topics
	client    *kgo.Client
	admin     *kadm.Client
	undo      []func() error // the last one first
}

// openBrokers connects to the brokers at those addresses and makes the topics. Without addresses it starts one in this process,
// which keeps its logs in memory: not for production.
func openBrokers(ctx context.Context, addresses []string, g shard.Group) (b *brokers, err error) {
	b = &brokers{addresses: addresses, topics: topics{string(orders), string(payments), "dead-letters"}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if len(addresses) == 0 {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return b, fmt.Errorf("start a broker: %w", err)
		}
		b.later(func() error { fake.Close(); return nil })
		b.addresses = fake.ListenAddrs()
	} else { // names of its own, so that it meets nothing there and leaves nothing
		run := "tenure-" + strings.ToLower(rand.Text()[:8]) + "-"
		b.topics = topics{run + b.topics.Orders, run + b.topics.Payments, run + b.topics.Dead}
	}
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(b.addresses...), kgo.MetadataMinAge(50*time.Millisecond)); err != nil {
		return b, err
	}
	b.later(func() error { b.client.Close(); return nil })
	b.admin = kadm.NewClient(b.client)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := b.client.Ping(ctx); err != nil {
		return b, fmt.Errorf("brokers at %s: %w", strings.Join(b.addresses, ","), err)
	}
	for topic, partitions := range map[string]int{b.topics.Orders: g.Shards, b.topics.Payments: g.Shards, b.topics.Dead: 1} {
		if err := b.create(ctx, topic, partitions); err != nil {
			return b, err
		}
	}
	return b, nil
}

// later has f called by close.
func (b *brokers) later(f func() error) { b.undo = append(b.undo, f) }

func (b *brokers) close() (err error) {
	for _, f := range slices.Backward(b.undo) {
		err = errors.Join(err, f())
	}
	return err
}

// create makes a topic and waits until it is known, which it is a little later.
func (b *brokers) create(ctx context.Context, topic string, partitions int) error {
	r, err := b.admin.CreateTopic(ctx, int32(partitions), -1, nil, topic)
	if err == nil {
		err = r.Err
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	b.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := b.admin.DeleteTopics(ctx, topic); err != nil {
			return fmt.Errorf("delete topic %s: %w", topic, err)
		}
		return nil
	})
	return wait.Until(ctx, 10*time.Second, "topic "+topic, func() (bool, string) {
		d, err := b.admin.ListTopics(ctx, topic)
		return err == nil && d[topic].Err == nil && len(d[topic].Partitions) == partitions, fmt.Sprint(err, d[topic].Err)
	})
}

// read is all that a topic has, by partition and offset, as any consumer sees it.
func (b *brokers) read(ctx context.Context, topic string) ([]*kgo.Record, error) {
	ends, err := b.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read topic %s: %w", topic, err)
	}
	from := make(map[int32]kgo.Offset)
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		from[o.Partition] = kgo.NewOffset().AtStart()
		left += o.Offset
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addresses...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var all []*kgo.Record
	for int64(len(all)) < left {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read topic %s: %d of %d records: %w", topic, len(all), left, err)
		}
		all = append(all, fetches.Records()...)
	}
	slices.SortFunc(all, func(x, y *kgo.Record) int {
		return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
	})
	return all, nil
}

// log is both topics.
func (b *brokers) log(ctx context.Context) (all []logged, err error) {
	for _, k := range []kind{orders, payments} {
		recs, err := b.read(ctx, b.topics.of(k))
		if err != nil {
			return nil, err
		}
		for _, r := range recs {
			all = append(all, logged{place{k, r.Partition, r.Offset}, string(r.Key), r.Value})
		}
	}
	return all, nil
}

// dead is the dead-letter topic.
func (b *brokers) dead(ctx context.Context) (all []dead, err error) {
	recs, err := b.read(ctx, b.topics.Dead)
	if err != nil {
		return nil, err
	}
	for _, r := range recs {
		headers := make(map[string]string)
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		d := dead{why: headers[kafka.DeadError]}
		switch headers[kafka.DeadTopic] {
		case b.topics.Orders:
			d.kind = orders
		case b.topics.Payments:
			d.kind = payments
		}
		partition, e1 := strconv.ParseInt(headers[kafka.DeadPartition], 10, 32)
		offset, e2 := strconv.ParseInt(headers[kafka.DeadOffset], 10, 64)
		tries, e3 := strconv.Atoi(headers[kafka.DeadTries])
		if err := errors.Join(e1, e2, e3); err != nil || d.kind == "" {
			return nil, fmt.Errorf("dead letter %d: its headers %v don't say where it comes from: %w", r.Offset, headers, err)
		}
		d.partition, d.offset, d.tries = int32(partition), offset, tries
		all = append(all, d)
	}
	return all, nil
}
