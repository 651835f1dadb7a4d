// Package broker is the Kafka that the benchmark talks to: a cluster that is named to it, or kfake, a broker in this process's memory.
//
// Consumer groups come in two kinds. In a classic one the members' clients share the partitions out among them, in rounds that begin
// when a member hears of them from its heartbeat; the cooperative-sticky balancer lets those partitions that stay be consumed
// meanwhile. In one of KIP-848 the broker does it, and tells each member with the answer to its heartbeat. A client that asks
// for the second where it isn't to be had silently gets the first, so Check looks which it is.
package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Broker says where a cluster is, and what its groups may ask of it. It can be passed to another process.
type Broker struct {
	Seeds []string
	Fake  bool
	Least Least
}

// Least are the shortest times that the brokers allow a group. They can't be changed while a broker runs.
type Least struct {
	Session    time.Duration // of a classic group, which its members choose
	NewSession time.Duration // of a group of KIP-848, set for each group on the broker
	NewBeat    time.Duration // between heartbeats of a group of KIP-848, set likewise
}

// Fake starts kfake. It allows a session of 2 s in either kind of group. Settings that a group of KIP-848 can have for itself it does not
// look at, so they are the broker's.
func Fake() (b *Broker, stop func(), err error) {
	least := Least{Session: 2 * time.Second, NewSession: 2 * time.Second, NewBeat: 200 * time.Millisecond}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(least.Session), kfake.BrokerConfigs(map[string]string{
		"group.consumer.session.timeout.ms":    strconv.FormatInt(least.NewSession.Milliseconds(), 10),
		"group.consumer.heartbeat.interval.ms": strconv.FormatInt(least.NewBeat.Milliseconds(), 10),
	}))
	if err != nil {
		return nil, nil, fmt.Errorf("broker: start kfake: %w", err)
	}
	return &Broker{Seeds: c.ListenAddrs(), Fake: true, Least: least}, c.Close, nil
}

// Dial asks the brokers at seeds for what they allow.
func Dial(ctx context.Context, seeds []string) (*Broker, error) {
	b := &Broker{Seeds: seeds}
	admin, err := b.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	meta, err := admin.BrokerMetadata(ctx)
	if err != nil || len(meta.Brokers) == 0 {
		return nil, fmt.Errorf("broker: no broker answers at %v: %w", seeds, errors.Join(err, ctx.Err()))
	}
	described, err := admin.DescribeBrokerConfigs(ctx, meta.Brokers[0].NodeID)
	if err != nil {
		return nil, fmt.Errorf("broker: read the broker's settings: %w", err)
	}
	// Kafka's defaults, for brokers that don't show theirs.
	b.Least = Least{Session: 6 * time.Second, NewSession: 45 * time.Second, NewBeat: 5 * time.Second}
	for _, r := range described {
		for _, c := range r.Configs {
			ms, err := strconv.Atoi(c.MaybeValue())
			if err != nil {
				continue
			}
			d := time.Duration(ms) * time.Millisecond
			switch c.Key {
			case "group.min.session.timeout.ms":
				b.Least.Session = d
			case "group.consumer.min.session.timeout.ms":
				b.Least.NewSession = d
			case "group.consumer.min.heartbeat.interval.ms":
				b.Least.NewBeat = d
			}
		}
	}
	return b, nil
}

// Name is for the conditions of a table.
func (b *Broker) Name() string {
	if b.Fake {
		return "kfake, a broker in this process's memory that is quicker than any real one"
	}
	return "Kafka"
}

// Fact describes the brokers to a reader.
func (b *Broker) Fact(ctx context.Context) (string, error) {
	if b.Fake {
		return "kfake, in this process: it shows that a row works, and not how long a broker takes", nil
	}
	admin, err := b.admin()
	if err != nil {
		return "", err
	}
	defer admin.Close()
	versions, err := admin.ApiVersions(ctx)
	if err != nil {
		return "", fmt.Errorf("broker: ask for versions: %w", err)
	}
	for _, v := range versions {
		return fmt.Sprintf("speaks %s, %d broker(s), flushed as by default (by the system, not at each commit)", v.VersionGuess(), len(versions)), nil
	}
	return "no broker answers", nil
}

// Client is one more connection to the cluster, for whoever closes it.
func (b *Broker) Client(opts ...kgo.Opt) (*kgo.Client, error) {
	c, err := kgo.NewClient(append(append(b.Options(), kgo.ProducerLinger(0)), opts...)...)
	if err != nil {
		return nil, fmt.Errorf("broker: client: %w", err)
	}
	return c, nil
}

// Options are those of any client of the cluster.
func (b *Broker) Options() []kgo.Opt {
	// A topic that was just made is not to be waited for.
	return []kgo.Opt{kgo.SeedBrokers(b.Seeds...), kgo.MetadataMinAge(10 * time.Millisecond)}
}

func (b *Broker) admin() (*kadm.Client, error) {
	c, err := b.Client()
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(c), nil
}

// Topic makes a topic, and returns once it is known. drop deletes it.
func (b *Broker) Topic(ctx context.Context, name string, partitions int) (drop func(), err error) {
	admin, err := b.admin()
	if err != nil {
		return nil, err
	}
	drop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = admin.DeleteTopics(ctx, name)
		admin.Close()
	}
	r, err := admin.CreateTopic(ctx, int32(partitions), -1, nil, name)
	if err = errors.Join(err, r.Err); err != nil {
		admin.Close()
		return nil, fmt.Errorf("broker: create topic %s: %w", name, err)
	}
	for {
		d, err := admin.ListTopics(ctx, name)
		if err == nil && d[name].Err == nil && len(d[name].Partitions) == partitions {
			return drop, nil
		}
		if err == nil && d[name].Err != nil && !errors.Is(d[name].Err, kerr.UnknownTopicOrPartition) && !errors.Is(d[name].Err, kerr.LeaderNotAvailable) {
			err = d[name].Err
		}
		select {
		case <-ctx.Done():
			drop()
			return nil, fmt.Errorf("broker: topic %s is not known yet: %w", name, errors.Join(ctx.Err(), err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}
