package rival

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/owner/writer"
)

// tenureOnPostgres are the owner's three ways, all fenced.
func tenureOnPostgres(p *Places, w Work) []measure.Contender {
	if p.Etcd == nil {
		return nil
	}
	form := func(name, note string, c writer.Config, form func(*pgShard) apply) measure.Contender {
		return ownedContender(name, note, func(ctx context.Context) (*owned, func(context.Context) (int64, error), func(), error) {
			t, err := newPgTable(ctx, p, w.Accounts)
			if err != nil {
				return nil, nil, nil, err
			}
			fence := p.name("fence")
			fences, err := pgxfence.New(p.Postgres, pgxfence.Config{Table: fence})
			if err != nil {
				return nil, nil, nil, err
			}
			if err := fences.Install(ctx); err != nil {
				return nil, nil, nil, err
			}
			n, err := newOwned(ctx, p, w, openPgShard(fences, t, keys(w.Accounts), form), c)
			drop := func() {
				t.drop()
				for _, stmt := range dialect.NewFence(dialect.Postgres, fence).Drop {
					_, _ = p.Postgres.Exec(context.Background(), stmt)
				}
			}
			return n, t.sum, drop, err
		})
	}
	return []measure.Contender{
		form("Tenure, owner singly", "a guarded transaction for each request", writer.Config{MaxBatch: 1}, (*pgShard).each),
		form("Tenure, writer, per command", "group commit, one UPDATE for each request", writer.Config{}, (*pgShard).each),
		form("Tenure, writer, coalesced", "group commit, balances in memory, one UPDATE for a batch", writer.Config{}, (*pgShard).coalesced),
	}
}

// pgShard is one tenure's state.
type pgShard struct {
	fences   *pgxfence.Fence
	table    *pgTable
	tenure   *owner.Tenure
	balances map[int]int64
}

func openPgShard(fences *pgxfence.Fence, table *pgTable, names []string, form func(*pgShard) apply) open {
	return func(ctx context.Context, t *owner.Tenure) (apply, error) {
		if err := fences.Seal(ctx, t.Token()); err != nil {
			return nil, err
		}
		s := &pgShard{fences, table, t, map[int]int64{}}
		rows, err := table.pool.Query(ctx, "SELECT id, balance FROM "+table.name+" WHERE id = ANY($1)", own(t, names))
		if err != nil {
			return nil, err
		}
		var id int
		var balance int64
		if _, err := pgx.ForEachRow(rows, []any{&id, &balance}, func() error { s.balances[id] = balance; return nil }); err != nil {
			return nil, err
		}
		return form(s), nil
	}
}

func (s *pgShard) each() apply {
	return func(ctx context.Context, batch []*command) error {
		b := &pgx.Batch{}
		for _, c := range batch {
			b.Queue(s.table.add, c.Value, 1)
		}
		if err := s.fences.Batch(ctx, s.tenure.Token(), b); err != nil {
			return err
		}
		for _, c := range batch {
			c.Reply(1)
		}
		return nil
	}
}

// coalesced changes balances in memory, and stores each account that has changed once. Memory changes only once it is stored.
func (s *pgShard) coalesced() apply {
	return func(ctx context.Context, batch []*command) error {
		changed := map[int]int64{}
		for _, c := range batch {
			balance, ok := changed[c.Value]
			if !ok {
				balance = s.balances[c.Value]
			}
			changed[c.Value] = balance + 1
			c.Reply(balance + 1)
		}
		ids := slices.Collect(maps.Keys(changed))
		balances := make([]int64, len(ids))
		for i, id := range ids {
			balances[i] = changed[id]
		}
		b := &pgx.Batch{}
		b.Queue(s.table.setMany, ids, balances)
		if err := s.fences.Batch(ctx, s.tenure.Token(), b); err != nil {
			return err
		}
		maps.Copy(s.balances, changed)
		return nil
	}
}
