package zombie

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/bench/internal/broker"
)

// consumers are the contenders that hold a partition, and write what a record of it tells them to.
func consumers(b *broker.Broker) []Kind {
	on := ""
	if b.Fake {
		on = "; on kfake"
	}
	group := func(name string, byBroker bool, least time.Duration) Kind {
		ttl := max(TTL, least)
		kind := broker.Kind{ByBroker: byBroker, Session: ttl, Beat: ttl / 3}
		if byBroker {
			kind.Beat = max(kind.Beat, b.Least.NewBeat)
		}
		return Kind{
			Name: name, TTL: ttl, topic: true,
			Note: fmt.Sprintf("a session of %s, where 45 s is Kafka's default, heartbeats every %s, and no rebalance between poll and commit%s", ttl, kind.Beat.Round(time.Millisecond), on),
			open: func(_ context.Context, d *database, s spec) (holder, error) {
				return &grouped{database: d, spec: s, kind: kind}, nil
			},
		}
	}
	return []Kind{
		group("Kafka, cooperative-sticky", false, b.Least.Session),
		group("Kafka, KIP-848", true, b.Least.NewSession),
		{Name: "Tenure, router/kafka, fenced SQL", Ours: true, topic: true, Note: "effect and position in one transaction" + on, open: newConsumed},
	}
}

func topicOf(run, name string) string { return "bench-zombie-" + run + "-" + name }

// fill makes a topic of one partition with more records than a trial takes.
func fill(ctx context.Context, b *broker.Broker, topic string) (drop func(), err error) {
	drop, err = b.Topic(ctx, topic, 1)
	if err != nil {
		return nil, err
	}
	producer, err := b.Client()
	if err != nil {
		drop()
		return nil, err
	}
	defer producer.Close()
	for range 10 {
		if err := producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("account"), Value: []byte("add")}).FirstErr(); err != nil {
			drop()
			return nil, fmt.Errorf("zombie: produce: %w", err)
		}
	}
	return drop, nil
}

// grouped is a member of a consumer group. It has polled a record, and is about to write what that tells it to.
type grouped struct {
	*database
	spec   spec
	kind   broker.Kind
	client *kgo.Client
	record *kgo.Record
	gone   atomic.Bool // its partition was taken from it
}

func (g *grouped) topic() string { return topicOf(g.spec.Run, g.spec.Name) }

func (g *grouped) acquire(ctx context.Context) (balance int64, err error) {
	b := g.spec.Addresses.Kafka
	opts, err := b.Join(ctx, g.topic(), g.kind)
	if err != nil {
		return 0, err
	}
	lost := func(context.Context, *kgo.Client, map[string][]int32) { g.gone.Store(true) }
	g.client, err = b.Client(append(opts, kgo.ConsumeTopics(g.topic()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(20*time.Millisecond), kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost))...)
	if err != nil {
		return 0, err
	}
	for g.record == nil {
		fetches := g.client.PollRecords(ctx, 1)
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if recs := fetches.Records(); len(recs) > 0 {
			g.record = recs[0]
		} else {
			g.client.AllowRebalance()
		}
	}
	g.gone.Store(false) // what was taken before is not what it has now
	if err := b.Check(ctx, g.topic(), g.kind); err != nil {
		return 0, err
	}
	balance, _, err = g.read(ctx, g.spec.Name)
	if err == nil && g.gone.Load() {
		err = errNotHeld
	}
	return balance, err
}

// errOffset comes after the write, which stands.
var errOffset = errors.New("zombie: written; the offset's commit was refused")

func (g *grouped) write(ctx context.Context, balance int64) error {
	if err := g.set(ctx, g.spec.Name, balance); err != nil {
		return err
	}
	if err := g.client.CommitRecords(ctx, g.record); err != nil {
		return fmt.Errorf("%w: %w", errOffset, err)
	}
	return nil
}

func (g *grouped) release(ctx context.Context) error {
	err := g.client.CommitRecords(ctx, g.record)
	g.client.CloseAllowingRebalance()
	return err
}
