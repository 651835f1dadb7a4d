package zombie

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/bench/internal/servers"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// consumed is a node that consumes a partition. Process, which has a record in its hands, waits for the trial to tell it to go on; its write is sent
// under a context that the loss of the tenure does not end.
type consumed struct {
	*database
	spec     spec
	fence    recordFence
	consumer *kafka.Consumer

	inside chan error         // Process is called, or the node has ended
	orders chan order         // to Process
	told   chan error         // what came of the order
	over   context.Context    // ended: further records are only counted
	end    context.CancelFunc // of over
	leave  func()
}

// order is to write a balance, or nothing: the record is then done without an effect.
type order struct {
	balance int64
	write   bool
}

// recordFence is what both fences do here.
type recordFence interface {
	Seal(context.Context, shard.Token) error
	Position(context.Context, shard.Token, string) (int64, error)
	Schema() string
}

func newConsumed(ctx context.Context, d *database, s spec) (holder, error) {
	h := &consumed{database: d, spec: s, inside: make(chan error, 1), orders: make(chan order), told: make(chan error, 1)}
	h.over, h.end = context.WithCancel(context.Background())
	if d.pool != nil {
		f, err := pgxfence.New(d.pool, pgxfence.Config{Table: "bench_zombie_fence", Idle: TTL})
		if err != nil {
			return nil, err
		}
		h.fence = f
		return h, f.Install(ctx)
	}
	f, err := fence.NewSQL(d.lite, fence.SQLite, fence.SQLConfig{Table: "bench_zombie_fence"})
	if err != nil {
		return nil, err
	}
	h.fence = f
	return h, f.Install(ctx)
}

// apply writes the order's effect and the position together.
func (h *consumed) apply(tok shard.Token, stream string, next int64, o order) error {
	ctx := context.Background()
	if f, ok := h.fence.(*pgxfence.Fence); ok {
		return f.Tx(ctx, tok, func(tx pgx.Tx) error {
			if o.write {
				if _, err := tx.Exec(ctx, set, h.spec.Name, o.balance); err != nil {
					return err
				}
			}
			return f.Advance(ctx, tx, tok, stream, next)
		})
	}
	f, ok := h.fence.(*fence.SQL)
	if !ok {
		return errors.New("zombie: a fence of another kind")
	}
	return f.Tx(ctx, tok, func(tx *sql.Tx) error {
		if o.write {
			if _, err := tx.ExecContext(ctx, set, h.spec.Name, o.balance); err != nil {
				return err
			}
		}
		return f.Advance(ctx, tx, tok, stream, next)
	})
}

func (h *consumed) open(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
	tok, stream := t.Token(), kafka.Stream(ctx)
	if err := h.fence.Seal(ctx, tok); err != nil {
		return kafka.Partition{}, err
	}
	from, err := h.fence.Position(ctx, tok, stream)
	return kafka.Partition{From: from, Process: func(_ context.Context, recs []*kgo.Record) error {
		o := order{}
		if h.over.Err() == nil {
			h.inside <- nil
			o = <-h.orders
		}
		err := h.apply(tok, stream, kafka.Next(recs), o)
		if o.write {
			h.told <- err
		}
		return err
	}}, err
}

func (h *consumed) acquire(ctx context.Context) (int64, error) {
	client, err := servers.OpenEtcd(h.spec.Addresses.Etcd)
	if err != nil {
		return 0, err
	}
	topic := topicOf(h.spec.Run, h.spec.Name)
	group := shard.Single(topic)
	h.consumer, err = kafka.NewConsumer(ctx, group, topic, h.open, kafka.ConsumerConfig{Client: h.spec.Addresses.Kafka.Options(), MaxBatch: 1, AnyKey: true})
	if err != nil {
		return 0, err
	}
	node, err := owner.New(etcdkv.New(client), group, h.consumer.Serve, owner.Config{TTL: TTL, Settle: 50 * time.Millisecond})
	if err != nil {
		return 0, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := node.Run(running); err != nil {
			select {
			case h.inside <- err:
			default:
			}
		}
	}()
	h.leave = func() { cancel(); h.end(); h.orders <- order{}; <-ended }
	if err := <-h.inside; err != nil {
		return 0, err
	}
	balance, _, err := h.read(ctx, h.spec.Name)
	return balance, err
}

func (h *consumed) write(_ context.Context, balance int64) error {
	h.end()
	h.orders <- order{balance, true}
	return <-h.told
}

func (h *consumed) release(context.Context) error {
	h.leave()
	return h.consumer.Close()
}
