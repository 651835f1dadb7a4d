package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenure-go/tenure/router/kafka"
)

type config struct {
	length, ttl     time.Duration
	rate, processes int
	noFence         bool
}

// run does all of it, and returns how many faults it has found.
func run(ctx context.Context, c config) (faults int, err error) {
	dir, err := os.MkdirTemp("", "tenure-kafka-chaos-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	id := strconv.FormatInt(time.Now().UnixNano(), 36)
	o := orders{Run: id, Dir: dir, DSN: os.Getenv("TENURE_TEST_POSTGRES"), Brokers: os.Getenv("TENURE_TEST_KAFKA"), TTL: c.ttl, NoFence: c.noFence}
	o.Topic, o.Changes = "orders-"+id, "changes-"+id
	etcd, endpoint, err := startEtcd(dir)
	if err != nil {
		return 0, err
	}
	defer etcd.Close()
	o.Etcd = endpoint
	if o.Brokers == "" {
		fake, err := kfake.NewCluster(kfake.NumBrokers(3))
		if err != nil {
			return 0, err
		}
		defer fake.Close()
		o.Brokers = strings.Join(fake.ListenAddrs(), ",")
	}
	l, err := openLedger(o.DSN, dir, id, c.noFence)
	if err != nil {
		return 0, err
	}
	defer l.db.Close()
	if err := l.install(ctx); err != nil {
		return 0, err
	}
	defer l.drop(context.WithoutCancel(ctx))
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(o.Brokers, ",")...), kgo.RecordPartitioner(kafka.Partitioner(groupOf("ledger", id))))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	if err := makeTopics(ctx, cl, o); err != nil {
		return 0, err
	}
	defer deleteTopics(context.WithoutCancel(ctx), cl, o)

	f := &fleet{orders: o}
	defer f.stop()
	for range c.processes {
		if err := f.start(); err != nil {
			return 0, err
		}
	}
	brokers, script := mortal()
	n := &nemesis{fleet: f, ttl: c.ttl, brokers: brokers, script: script, done: make(map[string]int)}
	harm, stop := context.WithTimeout(ctx, c.length)
	defer stop()
	made := make(chan map[string]account, 1)
	go func() { made <- load(harm, cl, o.Topic, c.rate) }()
	err = n.run(harm)
	stop()
	want := <-made
	if err != nil {
		return 0, err
	}
	faults, err = check(ctx, o, l, want)
	f.stop()
	fmt.Printf("%d records of %d keys; %v; writes of zombies refused: %d\n", total(want), len(want), n.done, f.refused)
	return faults, err
}

// load produces until ctx ends, and returns what all that was produced makes.
func load(ctx context.Context, cl *kgo.Client, topic string, rate int) map[string]account {
	made := make(map[string]account)
	every := 10 * time.Millisecond
	for pause(ctx, every) {
		for range max(1, rate/100) {
			key := fmt.Sprintf("key-%d", rand.IntN(100))
			e := entry{made[key].Seq + 1, rand.Int64N(100)}
			made[key] = made[key].add(e)
			// Idempotent and never given up on: what is begun gets in, once and in order.
			cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Topic: topic, Key: []byte(key), Value: e.value()}, nil)
		}
	}
	_ = cl.Flush(context.WithoutCancel(ctx))
	return made
}

func total(accounts map[string]account) (n int64) {
	for _, a := range accounts {
		n += a.Seq
	}
	return n
}

const patience = 2 * time.Minute

// check waits until all is consumed, and compares both with what was produced.
func check(ctx context.Context, o orders, l *ledger, want map[string]account) (faults int, err error) {
	var inSQL, inLog map[string]account
	err = until(ctx, patience, "the database has all", func() (bool, error) {
		inSQL, err = l.accounts(ctx)
		return err == nil && total(inSQL) >= total(want), err
	})
	if err == nil {
		err = until(ctx, patience, "the changelog has all", func() (bool, error) {
			inLog, err = replay(ctx, o)
			return err == nil && total(inLog) >= total(want), err
		})
	}
	if err != nil {
		fmt.Printf("of %d records the database has %d, the changelog %d\n", total(want), total(inSQL), total(inLog))
		if errors.Is(err, context.Canceled) {
			return 0, err
		}
		return 1, nil // lost, or stuck
	}
	return compare("database", want, inSQL) + compare("changelog", want, inLog), nil
}

func compare(what string, want, got map[string]account) (faults int) {
	for key, w := range want {
		if g := got[key]; g != w {
			faults++
			fmt.Printf("%s: %s: got %+v, want %+v\n", what, key, g, w)
		}
	}
	if !maps.Equal(want, got) && faults == 0 {
		faults++
		fmt.Printf("%s: it has keys that nobody produced\n", what)
	}
	return faults
}

// replay reads the changelog as any reader would.
func replay(ctx context.Context, o orders) (map[string]account, error) {
	store, done, err := dialEtcd(o.Etcd)
	if err != nil {
		return nil, err
	}
	defer done()
	log, err := kafka.OpenChangelog(ctx, groupOf("sums", o.Run), o.Changes, kafka.ChangelogConfig{
		Client: []kgo.Opt{kgo.SeedBrokers(strings.Split(o.Brokers, ",")...)}, Checkpoints: kafka.OnCAS(store, "/checkpoints"),
	})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	all := make(book)
	for s := range shards {
		b := make(book)
		if _, err := log.Follow(ctx, s, b.load, b.apply); err != nil {
			return nil, err
		}
		maps.Copy(all, b)
	}
	return all, nil
}

func makeTopics(ctx context.Context, cl *kgo.Client, o orders) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = o.Topic, shards, -1
	req.Topics = append(req.Topics, t)
	if _, err := req.RequestWith(ctx, cl); err != nil {
		return err
	}
	if err := kafka.CreateChangelog(ctx, cl, groupOf("sums", o.Run), o.Changes, -1); err != nil {
		return err
	}
	return until(ctx, patience, "the topics are there", func() (bool, error) {
		req := kmsg.NewPtrMetadataRequest()
		for _, topic := range []string{o.Topic, o.Changes} {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(topic)
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, cl)
		return err == nil && len(resp.Topics) == 2 && len(resp.Topics[0].Partitions) == shards && len(resp.Topics[1].Partitions) == shards, err
	})
}

func deleteTopics(ctx context.Context, cl *kgo.Client, o orders) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, topic := range []string{o.Topic, o.Changes} {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
		req.TopicNames = append(req.TopicNames, topic)
	}
	_, _ = req.RequestWith(ctx, cl)
}
