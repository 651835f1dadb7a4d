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

// BenchmarkPgxFence is what the fence costs: clients on Postgres, each with transactions of its own accounts, pipelined into
// one round trip and prepared, with the guard and without. Rounds alternate, since a machine's speed drifts; "x" is the
// median of the paired rounds' ratios, so 1.1 is 10 % more time per transaction. Bar: 1.15 where the clients
// are spread over 64 shards.
//
// "empty-x" and "read-x" are the same ratio for a transaction that, instead of being guarded, has a SELECT 1, and one that reads the
// fence's row by its key, and locks and checks nothing: what a guard must cost at least, as a statement of its own that
// has to read something.
func BenchmarkPgxFence(b *testing.B) {
	for _, bench := range []struct {
		name                   string
		clients, shards, batch int
	}{
		{"64 shards", 64, 64, 1},
		{"64 shards, 8 clients", 8, 64, 1},
		{"64 shards, one client", 1, 64, 1},
		{"one shard", 64, 1, 1},
		{"64 shards, batches of 64", 64, 64, 64},
		{"one shard, batches of 64", 64, 1, 64},
	} {
		b.Run(bench.name, func(b *testing.B) {
			f := pgxSubject(b, pgxFenceOptions{}).New(b, fencetest.Options{}).(*pgxFence)
			r := newBenchRig(b, f, bench.clients, bench.shards, bench.batch)
			r.round(b, r.plain) // prepares, warms up
			r.round(b, r.fenced)
			r.round(b, r.reading)
			r.round(b, r.empty)
			var ratios, reads, empties, plains, fenceds []float64
			for b.Loop() {
				plain, fenced, reading, empty := r.round(b, r.plain), r.round(b, r.fenced), r.round(b, r.reading), r.round(b, r.empty)
				ratios = append(ratios, fenced.Seconds()/plain.Seconds())
				reads = append(reads, reading.Seconds()/plain.Seconds())
				empties = append(empties, empty.Seconds()/plain.Seconds())
				plains = append(plains, plain.Seconds())
				fenceds = append(fenceds, fenced.Seconds())
			}
			writes := float64(bench.clients * r.each * bench.batch)
			b.ReportMetric(median(ratios), "x")
			b.ReportMetric(median(reads), "read-x")
			b.ReportMetric(median(empties), "empty-x")
			b.ReportMetric(writes/median(plains), "plain/s")
			b.ReportMetric(writes/median(fenceds), "fenced/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(v []float64) float64 {
	slices.SortFunc(v, cmp.Compare[float64])
	return v[len(v)/2]
}

type benchRig struct {
	f       *pgxfence.Fence
	pool    *pgxpool.Pool
	fences  string // the fence's table
	table   string // the accounts'
	tokens  []shard.Token
	clients int
	batch   int // statements in a transaction
	each    int // transactions of a client in a round
}

func newBenchRig(b *testing.B, f *pgxFence, clients, shards, batch int) *benchRig {
	r := &benchRig{
		f: f.Fence, pool: f.pool, fences: f.table, table: f.table + "_account",
		clients: clients, batch: batch, each: max(2, min(8192/clients, 1024)/batch),
	}
	for n := range shards {
		tok := token(5)
		tok.Shard = n
		if err := f.Seal(b.Context(), tok); err != nil {
			b.Fatal(err)
		}
		r.tokens = append(r.tokens, tok)
	}
	if _, err := f.pool.Exec(b.Context(), fmt.Sprintf(
		"INSERT INTO %s SELECT n, 0 FROM generate_series(100, %d) AS n", r.table, 100+r.clients*64)); err != nil {
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
	return r.pool.SendBatch(ctx, within(r.statements(client))).Close()
}

// reading is plain, and one read by key more.
func (r *benchRig) reading(ctx context.Context, client int) error {
	tok, batch := r.tokens[client%len(r.tokens)], r.statements(client)
	batch.Queue("SELECT epoch FROM "+r.fences+" WHERE group_name = $1 AND shard = $2", tok.Group, tok.Shard)
	return r.pool.SendBatch(ctx, within(batch)).Close()
}

// empty is plain, and one statement more, which does nothing.
func (r *benchRig) empty(ctx context.Context, client int) error {
	batch := r.statements(client)
	batch.Queue("SELECT 1")
	return r.pool.SendBatch(ctx, within(batch)).Close()
}

func within(batch *pgx.Batch) *pgx.Batch {
	whole := &pgx.Batch{}
	whole.Queue("begin")
	whole.QueuedQueries = append(whole.QueuedQueries, batch.QueuedQueries...)
	whole.Queue("commit")
	return whole
}

func (r *benchRig) round(b *testing.B, transaction func(context.Context, int) error) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for client := range r.clients {
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
