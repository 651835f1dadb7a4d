package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/shard"
)

// postgres is a vault for as many machines as you like.
type postgres struct {
	pool   *pgxpool.Pool
	fences *pgxfence.Fence
}

// openPostgres connects to the primary. Each shard has at most one read and one write under way, so a pool of 10 to
// 20 connections, set by pool_max_conns in the URL, is plenty.
func openPostgres(ctx context.Context, url string) (*postgres, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err) // pgx leaves the password out
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	fences, err := pgxfence.New(pool, pgxfence.Config{})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgres{pool, fences}, nil
}

// install takes a lock, because several processes may start at once and CREATE TABLE IF NOT EXISTS is no protection
// against that. With migrations of your own, run pgxfence's schema and this there, and let the service's role only
// read and write, with the rights that Schema names.
func (p *postgres) install(ctx context.Context) error {
	if err := p.fences.Install(ctx); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			SELECT pg_advisory_xact_lock(hashtext('tenure example accounts'));
			CREATE TABLE IF NOT EXISTS account (id TEXT PRIMARY KEY, balance BIGINT NOT NULL CHECK (balance >= 0));
			CREATE TABLE IF NOT EXISTS operation (account TEXT NOT NULL, id TEXT NOT NULL, amount BIGINT NOT NULL, balance BIGINT NOT NULL,
				at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (account, id))`)
		return err
	})
	if err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

func (p *postgres) seal(ctx context.Context, tok shard.Token) error { return p.fences.Seal(ctx, tok) }

func (p *postgres) close() error {
	p.pool.Close()
	return nil
}

// read sends both questions in one round trip.
func (p *postgres) read(ctx context.Context, accounts []string, ops []operation) (map[string]int64, map[operation]entry, error) {
	balances := make(map[string]int64, len(accounts))
	applied := make(map[operation]entry)
	b := &pgx.Batch{}
	if len(accounts) > 0 {
		b.Queue("SELECT id, balance FROM account WHERE id = ANY ($1)", accounts).Query(func(rows pgx.Rows) error {
			var id string
			var balance int64
			_, err := pgx.ForEachRow(rows, []any{&id, &balance}, func() error {
				balances[id] = balance
				return nil
			})
			return err
		})
	}
	if len(ops) > 0 {
		of, ids := make([]string, len(ops)), make([]string, len(ops))
		for i, op := range ops {
			of[i], ids[i] = op.account, op.id
		}
		b.Queue(`SELECT account, id, amount, o.balance FROM operation o
			JOIN unnest($1::text[], $2::text[]) AS asked (account, id) USING (account, id)`, of, ids).Query(func(rows pgx.Rows) error {
			var e entry
			_, err := pgx.ForEachRow(rows, []any{&e.account, &e.id, &e.amount, &e.balance}, func() error {
				applied[e.operation] = e
				return nil
			})
			return err
		})
	}
	if err := p.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, fmt.Errorf("read: %w", err)
	}
	return balances, applied, nil
}

// write is one round trip: begin, both statements, guard and commit.
func (p *postgres) write(ctx context.Context, tok shard.Token, balances map[string]int64, entries []entry) error {
	var (
		accounts = slices.Sorted(maps.Keys(balances)) // locked in one order, whoever writes: an owner that was replaced may be at it still
		totals   = make([]int64, len(accounts))
		of, ids  = make([]string, len(entries)), make([]string, len(entries))
		amounts  = make([]int64, len(entries))
		afters   = make([]int64, len(entries))
	)
	for i, id := range accounts {
		totals[i] = balances[id]
	}
	for i, e := range entries {
		of[i], ids[i], amounts[i], afters[i] = e.account, e.id, e.amount, e.balance
	}
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO account (id, balance) SELECT * FROM unnest($1::text[], $2::bigint[])
		ON CONFLICT (id) DO UPDATE SET balance = excluded.balance`, accounts, totals)
	b.Queue(`INSERT INTO operation (account, id, amount, balance)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])`, of, ids, amounts, afters)
	return p.fences.Batch(ctx, tok, b)
}
