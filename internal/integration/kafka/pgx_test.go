package kafka

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/router/kafka"
)

// program is one that consumes orders into Postgres, as a user writes it: effects and position in one transaction of pgx, behind its fence.
type program struct {
	fences *pgxfence.Fence
	table  string
	topic  string
	config kafka.ConsumerConfig

	seals atomic.Int64
}

func (p *program) applyOrder(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
	e, err := parseEntry(r.Value)
	if err != nil {
		return kafka.Bad(r, err)
	}
	_, err = tx.Exec(ctx, fmt.Sprintf(`INSERT INTO %[1]s AS t VALUES ($1, $2, $3::bigint, CASE WHEN $3::bigint = 1 THEN 0 ELSE 1 END)
		ON CONFLICT (account) DO UPDATE SET total = t.total + $2, seq = $3::bigint, wrong = t.wrong + CASE WHEN $3::bigint = t.seq + 1 THEN 0 ELSE 1 END`, p.table),
		string(r.Key), e.amount, e.seq)
	return err
}

func (p *program) open(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
	if err := p.fences.Seal(ctx, t.Token()); err != nil {
		return kafka.Partition{}, err
	}
	p.seals.Add(1)
	stream := kafka.Stream(ctx)
	from, err := p.fences.Position(ctx, t.Token(), stream)
	return kafka.Partition{
		From: from,
		Process: func(ctx context.Context, recs []*kgo.Record) error {
			return p.fences.Tx(ctx, t.Token(), func(tx pgx.Tx) error {
				for _, r := range recs {
					if err := p.applyOrder(ctx, tx, r); err != nil {
						return err
					}
				}
				return p.fences.Advance(ctx, tx, t.Token(), stream, kafka.Next(recs))
			})
		},
		Advance: func(ctx context.Context, next int64) error {
			return p.fences.Tx(ctx, t.Token(), func(tx pgx.Tx) error {
				return p.fences.Advance(ctx, tx, t.Token(), stream, next)
			})
		},
	}, err
}

func (p *program) run(ctx context.Context, store cas.Store, id string) error {
	consumer, err := kafka.NewConsumer(ctx, orders, p.topic, p.open, p.config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	node, err := owner.New(store, orders, consumer.Serve, owner.Config{ID: id, TTL: 2 * time.Second, Settle: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	return node.Run(ctx)
}

// installs makes its tables, for as long as the test runs.
func (p *program) installs(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	p.table = strings.ReplaceAll(name("orders"), "-", "_")
	var err error
	if p.fences, err = pgxfence.New(pool, pgxfence.Config{Table: p.table + "_fence"}); err == nil {
		err = p.fences.Install(t.Context())
	}
	if err == nil {
		_, err = pool.Exec(t.Context(), "CREATE TABLE "+p.table+" (account TEXT PRIMARY KEY, total BIGINT NOT NULL, seq BIGINT NOT NULL, wrong BIGINT NOT NULL)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, stmt := range append(dialect.NewFence(dialect.Postgres, p.table+"_fence").Drop, "DROP TABLE IF EXISTS "+p.table) {
			_, _ = pool.Exec(context.Background(), stmt)
		}
	})
}

// accounts is what the table holds.
func (p *program) accounts(t *testing.T, pool *pgxpool.Pool) map[string]account {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT account, total, seq, wrong FROM "+p.table)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]account)
	var key string
	var a account
	if _, err := pgx.ForEachRow(rows, []any{&key, &a.Sum, &a.Seq, &a.Wrong}, func() error {
		got[key] = a
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func postgres(t *testing.T) *pgxpool.Pool {
	t.Helper()
	dsn := os.Getenv("TENURE_TEST_POSTGRES")
	if dsn == "" {
		missing := "TENURE_TEST_POSTGRES is not set: bash .ci/servers start DIR postgres, then source DIR/env"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// The whole program on a real Postgres: processes' worth of it come, go, and are cut off from the store without noticing, and a record that can't be
// applied is put away. Each order has its effect once, in order.
func TestProgram_OrdersIntoPostgresByPgx(t *testing.T) {
	pool := postgres(t)
	each(t, func(t *testing.T, b *brokers) {
		p := &program{topic: b.topic("orders", orders.Shards), config: b.config()}
		p.config.DeadLetter = b.topic("dead", 1)
		p.config.LagGroup = name("lag")
		p.config.MaxBatch = 20
		p.installs(t, pool)
		store := memkv.NewServer(memkv.Config{})
		var running sync.WaitGroup
		defer running.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		start := func(id string) (client *memkv.Client, leave func()) {
			client = store.Client()
			own, end := context.WithCancel(ctx)
			done := make(chan struct{})
			running.Go(func() {
				defer close(done)
				defer client.Close()
				_ = p.run(own, client, id)
			})
			return client, func() {
				end()
				<-done
			}
		}
		book, producer := newBook(), b.producer(orders)
		more := func() {
			t.Helper()
			produce(t, producer, book.entries(p.topic, 50, 200)...)
			until(t, "all is applied", func() bool {
				var n int64
				for _, a := range p.accounts(t, pool) {
					n += a.Seq
				}
				return n >= book.count
			})
		}
		zombie, _ := start("first")
		produce(t, producer, &kgo.Record{Topic: p.topic, Key: []byte("key-1"), Value: []byte("no order")})
		more()
		_, leave := start("second")
		more()
		leave()
		more()
		now, at := zombie.Now(), time.Now()
		zombie.SetClock(func() time.Duration { return now }) // it never finds out that its trust has ended
		zombie.Cut(true)
		sealed := p.seals.Load()
		start("third")
		until(t, "every shard has another owner", func() bool { return p.seals.Load() >= sealed+int64(orders.Shards) })
		for range 3 {
			more()
		}
		zombie.SetClock(func() time.Duration { return now + time.Since(at) })
		zombie.Cut(false) // and is a member again
		more()
		for key, want := range book.want {
			if got := p.accounts(t, pool)[key]; got != want {
				t.Errorf("account %s: got %+v, want %+v", key, got, want)
			}
		}
		if dead := b.read(p.config.DeadLetter, 0); len(dead) == 0 || string(dead[0].Value) != "no order" {
			t.Errorf("dead letters: got %v, want the one that is no order", dead)
		}
	})
}
