package moving

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// consumed is nodes of Tenure that consume.
type consumed struct {
	*Records
	log     *log
	topic   string
	group   shard.Group
	client  *clientv3.Client
	members map[string]*consumedMember
}

type consumedMember struct {
	client   *clientv3.Client
	store    *etcdkv.Store
	consumer *kafka.Consumer
	leave    context.CancelFunc
	done     chan error
}

func openConsumed(q *Records, l *log, topic string) (*consumed, error) {
	client, err := dial(q.Etcd)
	return &consumed{Records: q, log: l, topic: topic, group: shard.Group{Name: topic, Shards: Parts}, client: client, members: map[string]*consumedMember{}}, err
}

func (c *consumed) prefix() string { return "/bench/" + c.topic + "/" }

func (c *consumed) join(ctx context.Context, name string) (err error) {
	m := &consumedMember{done: make(chan error, 1)}
	if m.client, err = dial(c.Etcd); err != nil {
		return err
	}
	m.store = etcdkv.New(m.client)
	m.consumer, err = kafka.NewConsumer(ctx, c.group, c.topic,
		func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
			return c.open(ctx, m.store, t, name)
		},
		kafka.ConsumerConfig{Client: c.Broker.Options(), AnyKey: true})
	if err != nil {
		return errors.Join(err, m.hangUp())
	}
	node, err := owner.New(m.store, c.group, m.consumer.Serve, owner.Config{Settle: 50 * time.Millisecond})
	if err != nil {
		return errors.Join(err, m.hangUp())
	}
	running, leave := context.WithCancel(context.Background())
	m.leave = leave
	c.members[name] = m
	go func() { m.done <- node.Run(running) }()
	return nil
}

// open goes on where the position is. The position is put under the claim's guard, in the same commit in which a service of this kind
// would put its effects.
func (c *consumed) open(ctx context.Context, kv cas.KV, t *owner.Tenure, member string) (kafka.Partition, error) {
	key := c.prefix() + strconv.Itoa(t.Token().Shard)
	next, rev, err := cas.Get[int64](ctx, kv, key)
	if rev == 0 {
		next = 0
	}
	return kafka.Partition{From: next, Process: func(ctx context.Context, recs []*kgo.Record) error {
		_, err := kv.Commit(ctx, cas.Txn{If: []cas.Cond{t.Guard()}, Then: []cas.Op{cas.Put(key, strconv.AppendInt(nil, kafka.Next(recs), 10))}})
		if err == nil {
			c.log.consumed(member, recs)
		}
		return err
	}}, err
}

func (c *consumed) leave(name string) error {
	m := c.members[name]
	if m == nil {
		return nil
	}
	delete(c.members, name)
	m.leave()
	return errors.Join(<-m.done, m.hangUp())
}

func (m *consumedMember) hangUp() (err error) {
	if m.consumer != nil {
		err = m.consumer.Close()
	}
	return errors.Join(err, m.store.Close(), m.client.Close())
}

func (c *consumed) close() {
	_ = c.leave("b")
	_ = c.leave("a")
	g := c.group.WithDefaults()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, prefix := range []string{c.prefix(), g.Prefix + "/" + g.Name + "/"} {
		_, _ = c.client.Delete(ctx, prefix, clientv3.WithPrefix())
	}
	_ = c.client.Close()
}
