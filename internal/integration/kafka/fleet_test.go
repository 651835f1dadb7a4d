package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// fleet is nodes of one group on a store in memory, each with a consumer of its own.
type fleet struct {
	t     testing.TB
	group shard.Group
	store *memkv.Server

	mu    sync.Mutex
	nodes []*node
}

type node struct {
	*owner.Node
	consumer *kafka.Consumer
	client   *memkv.Client
	leave    context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	tenures map[int]*owner.Tenure
}

func newFleet(t testing.TB, g shard.Group) *fleet {
	f := &fleet{t: t, group: g, store: memkv.NewServer(memkv.Config{})}
	t.Cleanup(func() {
		for _, n := range f.all() {
			n.client.Cut(false)
			n.leave()
		}
		for _, n := range f.all() {
			f.stop(n)
		}
	})
	return f
}

func (f *fleet) all() []*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*node(nil), f.nodes...)
}

// join starts a node whose shards are consumed from topic.
func (f *fleet) join(topic string, open kafka.Open, c kafka.ConsumerConfig) *node {
	f.t.Helper()
	return f.joinWith(topic, open, c, owner.Config{})
}

func (f *fleet) joinWith(topic string, open kafka.Open, c kafka.ConsumerConfig, oc owner.Config) *node {
	f.t.Helper()
	consumer, err := kafka.NewConsumer(f.t.Context(), f.group, topic, open, c)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.run(consumer, consumer.Serve, oc)
}

// run starts a node with a handler of its own.
func (f *fleet) run(consumer *kafka.Consumer, serve owner.Handler, oc owner.Config) *node {
	f.t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	n := &node{consumer: consumer, client: f.store.Client(), leave: leave, done: make(chan struct{}), tenures: make(map[int]*owner.Tenure)}
	f.mu.Lock()
	oc.ID = fmt.Sprintf("node-%d", len(f.nodes))
	f.nodes = append(f.nodes, n)
	f.mu.Unlock()
	oc.TTL, oc.Settle = 2*time.Second, 20*time.Millisecond
	var err error
	n.Node, err = owner.New(n.client, f.group, func(ctx context.Context, t *owner.Tenure) error {
		n.mu.Lock()
		n.tenures[t.Token().Shard] = t
		n.mu.Unlock()
		err := serve(ctx, t)
		if err != nil && ctx.Err() == nil {
			f.t.Logf("%s: shard %d: %v", oc.ID, t.Token().Shard, err)
		}
		return err
	}, oc)
	if err != nil {
		f.t.Fatal(err)
	}
	go func() {
		defer close(n.done)
		_ = n.Run(ctx)
	}()
	return n
}

// stop has a node leave, and waits until it is gone.
func (f *fleet) stop(n *node) {
	n.leave()
	<-n.done
	n.client.Close()
	if n.consumer != nil {
		n.consumer.Close()
	}
}

// tenure is the latest of a shard at a node, nil if it had none.
func (n *node) tenure(s int) *owner.Tenure {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tenures[s]
}

// serves is the number of shards that a node has ready.
func (n *node) serves() int {
	ready := 0
	for _, e := range n.Status().Shards {
		if e.State == owner.Ready {
			ready++
		}
	}
	return ready
}

// settle waits until these nodes serve all shards between them, evenly.
func (f *fleet) settle(nodes ...*node) {
	f.t.Helper()
	until(f.t, "every shard is served, shared evenly", func() bool {
		sum := 0
		for _, n := range nodes {
			s := n.serves()
			if s < f.group.Shards/len(nodes) {
				return false
			}
			sum += s
		}
		return sum == f.group.Shards
	})
}
