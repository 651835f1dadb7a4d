package kafka_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

var Orders = shard.Group{Name: "orders", Shards: 64, Hash: shard.Murmur2}

func applyOrder(context.Context, *sql.Tx, *kgo.Record) error { return nil }

// Effects and position are one transaction, behind the database's fence.
func ExampleConsumer() {
	run := func(ctx context.Context, store cas.Store, fences *fence.SQL) error {
		open := func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
			if err := fences.Seal(ctx, t.Token()); err != nil {
				return kafka.Partition{}, err
			}
			stream := kafka.Stream(ctx)
			from, err := fences.Position(ctx, t.Token(), stream)
			return kafka.Partition{
				From: from,
				Process: func(ctx context.Context, recs []*kgo.Record) error {
					return fences.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
						for _, r := range recs {
							if err := applyOrder(ctx, tx, r); err != nil {
								return err
							}
						}
						return fences.Advance(ctx, tx, t.Token(), stream, kafka.Next(recs))
					})
				},
				Advance: func(ctx context.Context, next int64) error {
					return fences.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
						return fences.Advance(ctx, tx, t.Token(), stream, next)
					})
				},
			}, err
		}
		orders, err := kafka.NewConsumer(ctx, Orders, "orders", open, kafka.ConsumerConfig{
			Client: []kgo.Opt{kgo.SeedBrokers("kafka:9092")}, DeadLetter: "orders.dead", LagGroup: "orders",
		})
		if err != nil {
			return err
		}
		defer orders.Close()
		node, err := owner.New(store, Orders, orders.Serve, owner.Config{})
		if err != nil {
			return err
		}
		return node.Run(ctx)
	}
	_ = run
}

// book is a shard's state in memory.
type book struct{}

func (b *book) restore(*kgo.Record) error             { return nil }
func (b *book) plan(recs []*kgo.Record) []*kgo.Record { return recs[:0:0] }
func (b *book) apply([]*kgo.Record)                   {}

// State in memory is rebuilt from a changelog, which keeps the input's position too. A node that is to get a shard reads ahead.
func ExampleChangelog() {
	partition := func(changes *kafka.Changelog, t *owner.Tenure, b *book, from int64) kafka.Partition {
		return kafka.Partition{
			From: from,
			Process: func(ctx context.Context, recs []*kgo.Record) error {
				out := b.plan(recs) // pure: what would change
				if err := changes.Append(ctx, t.Token(), kafka.Next(recs), out...); err != nil {
					return err
				}
				b.apply(out)
				return nil
			},
			Advance: func(ctx context.Context, next int64) error { return changes.Append(ctx, t.Token(), next) },
		}
	}
	open := func(changes *kafka.Changelog) kafka.Open {
		return func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
			b := &book{}
			from, err := changes.Restore(ctx, t.Token(), b.restore)
			return partition(changes, t, b, from), err
		}
	}
	prepare := func(changes *kafka.Changelog, orders *kafka.Consumer) func(context.Context, int) (owner.Handler, error) {
		return func(ctx context.Context, s int) (owner.Handler, error) {
			b := &book{}
			f, err := changes.Follow(ctx, s, nil, b.restore)
			return orders.Handler(func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
				from, err := f.Restore(ctx, t.Token())
				return partition(changes, t, b, from), err
			}), err
		}
	}
	_, _ = open, prepare
}

// One topic becomes another, each record's output once for readers of committed records: output and position are one transaction of Kafka's.
func ExampleOpen_transactions() {
	transform := func(r *kgo.Record) *kgo.Record {
		return &kgo.Record{Topic: "invoices", Partition: r.Partition, Key: r.Key}
	}
	// lastCommitted is the last record of a partition for readers of committed records, or -1.
	lastCommitted := func(ctx context.Context, topic string, partition int) (int64, error) { return -1, nil }

	open := func(store cas.Store) kafka.Open {
		return func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
			s := t.Token().Shard
			client, err := kgo.NewClient(kgo.SeedBrokers("kafka:9092"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.TransactionalID(fmt.Sprintf("invoices-%d", s))) // the shard's, whoever owns it
			if err != nil {
				return kafka.Partition{}, err
			}
			context.AfterFunc(t.Context(), client.Close)
			if _, _, err := client.ProducerID(ctx); err != nil { // fences all that were before
				return kafka.Partition{}, err
			}
			claim, err := store.Get(ctx, t.Guard().Key) // and only now: is the shard still ours?
			if err == nil && !t.Guard().Holds(claim) {
				err = errors.New("another owner has it")
			}
			if err != nil {
				return kafka.Partition{}, err
			}
			from, err := lastCommitted(ctx, "invoices.positions", s)
			return kafka.Partition{From: from, Process: func(ctx context.Context, recs []*kgo.Record) error {
				if err := client.BeginTransaction(); err != nil {
					return err
				}
				var out []*kgo.Record
				for _, r := range recs {
					out = append(out, transform(r))
				}
				out = append(out, &kgo.Record{
					Topic: "invoices.positions", Partition: int32(s), Key: []byte("next"), Value: fmt.Append(nil, kafka.Next(recs)),
				})
				if err := client.ProduceSync(ctx, out...).FirstErr(); err != nil {
					return errors.Join(err, client.EndTransaction(ctx, kgo.TryAbort))
				}
				return client.EndTransaction(ctx, kgo.TryCommit)
			}}, err
		}
	}
	_ = open
}
