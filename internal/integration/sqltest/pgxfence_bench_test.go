package sqltest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/shard"
)

// BenchmarkPgxFence is what the fence costs: 64 clients on Postgres, each with transactions of its own
// accounts, pipelined into one round trip and prepared, with the guard and without. Rounds of the two
// alternate, since a machine's speed drifts; "x" is the median of the paired rounds' ratios, so 1.1 is 10 % more
// time per transaction. Bar: 1.15 where the clients are spread over 64 shards.
func BenchmarkPgxFence(b *testing.B) {
	for _, bench := range []struct {
		name          string
		shards, batch int
	}{
		{"64 shards", 64, 1},
		{"one shard", 1, 1},
		{"64 shards, batches of 64", 64, 64},
		{"one shard, batches of 64", 1, 64},
	} {
		b.Run(bench.name, func(b *testing.B) {
			f := pgxSubject(b, pgxFenceOptions{}).New(b, fencetest.Options{}).(*pgxFence)
			r := newBenchRig(b, f, bench.shards, bench.batch)
			r.round(b, r.plain) // prepares, warms up
			r.round(b, r.fenced)
			var ratios, plains, fenceds []float64
			for b.Loop() {
				plain, fenced := r.round(b, r.plain), r.round(b, r.fenced)
				ratios = append(ratios, fenced.Seconds()/plain.Seconds())
				plains = append(plains, plain.Seconds())
				fenceds = append(fenceds, fenced.Seconds())
			}
			writes := float64(clients * r.each * bench.batch)
			b.ReportMetric(median(ratios), "x")
			b.ReportMetric(writes/median(plains), "plain/s")
			b.ReportMetric(writes/median(fenceds), "fenced/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const clients = 64

func median(v []float64) float64 {
	slices.SortFunc(v, cmp.Compare[float64])
	return v[len(v)/2]
}

type benchRig struct {
	f      *pgxfence.Fence
	pool   *pgxpool.Pool
	table  string
	tokens []shard.Token
	batch  int // statements in a transaction
	each   int // transactions of a client in a round
}

func newBenchRig(b *testing.B, f *pgxFence, shards, batch int) *benchRig {
	r := &benchRig{f: f.Fence, pool: f.pool, table: f.table + "_account", batch: batch, each: max(2, 128/batch)}
	for n := range shards {
		tok := token(5)
		tok.Shard = n
		if err := f.Seal(b.Context(), tok); err != nil {
			b.Fatal(err)
		}
		r.tokens = append(r.tokens, tok)
	}
	if _, err := f.pool.Exec(b.Context(), fmt.Sprintf(
		"INSERT INTO %s SELECT n, 0 FROM generate_series(100, %d) AS n", r.table, 100+clients*64)); err != nil {
		b.Fatal(err)
	}
	return r
}

func (r *benchRig) statements(client int) *pgx.Batch {
	batch := &pgx.Batch{}
	for n := range r.batch {
		batch.Queue("UPDATE "+r.table+" SET balance = balance + $1 WHERE id = $2", 1, 100+client*64+n)
	}
	return batch
}

func (r *benchRig) fenced(ctx context.Context, client int) error {
	return r.f.Batch(ctx, r.tokens[client%len(r.tokens)], r.statements(client))
}

// plain is the same without a guard, and otherwise as good: one round trip, BEGIN and COMMIT in it.
func (r *benchRig) plain(ctx context.Context, client int) error {
	whole := &pgx.Batch{}
	whole.Queue("begin")
	whole.QueuedQueries = append(whole.QueuedQueries, r.statements(client).QueuedQueries...)
	whole.Queue("commit")
	return r.pool.SendBatch(ctx, whole).Close()
}

func (r *benchRig) round(b *testing.B, transaction func(context.Context, int) error) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for range r.each {
				if err := transaction(b.Context(), client); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}
