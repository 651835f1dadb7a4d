package sqltest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/shard"
)

// pgxFence is a pgxfence.Fence with accounts behind it.
type pgxFence struct {
	*accounts
	*pgxfence.Fence
	pool *pgxpool.Pool
	conf pgxfence.Config
	o    pgxFenceOptions
	sql  *sqlFence    // over the same tables
	turn atomic.Int64 // of mixed
}

type pgxFenceOptions struct {
	batch bool   // Add is a Batch, not a Tx
	mixed bool   // every second Add and Seal goes through sql
	again bool   // Seal passes a guard, so that those to come may pass the short way
	mode  string // default_query_exec_mode
}

// pgxPool connects to the server, or to addr if that is not "". The caller closes it.
func pgxPool(t testing.TB, addr, mode string) *pgxpool.Pool {
	t.Helper()
	dsn := require(t, "TENURE_TEST_POSTGRES")
	if mode != "" {
		dsn += "&default_query_exec_mode=" + mode
	}
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if addr != "" {
		c.ConnConfig.Host, c.ConnConfig.Port = hostPort(addr)
		c.ConnConfig.Fallbacks = nil
	}
	c.MaxConns = 80
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func pgxSubject(t testing.TB, po pgxFenceOptions) fencetest.Subject {
	s := Postgres(t)
	subject := sqlSubject(s)
	subject.New = func(t testing.TB, o fencetest.Options) fencetest.Fence {
		t.Helper()
		a := newAccounts(t, s)
		pool := pgxPool(t, "", po.mode)
		t.Cleanup(pool.Close)
		f := &pgxFence{accounts: a, pool: pool, o: po, conf: pgxfence.Config{
			Table: a.table, Tx: pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(strings.ToLower(o.Level))}, Idle: o.Idle,
		}}
		var err error
		if f.Fence, err = pgxfence.New(pool, f.conf); err != nil {
			t.Fatal(err)
		}
		if err := f.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.sql = &sqlFence{accounts: a, conf: fence.SQLConfig{Table: a.table}}
		f.sql.conf.Tx.Isolation = levels[o.Level]
		if f.sql.SQL, err = fence.NewSQL(a.db, fence.Postgres, f.sql.conf); err != nil {
			t.Fatal(err)
		}
		return f
	}
	return subject
}

// other reports whether it is the turn of database/sql.
func (f *pgxFence) other() bool { return f.o.mixed && f.turn.Add(1)%2 == 0 }

func (f *pgxFence) Seal(ctx context.Context, tok shard.Token) error {
	if f.other() {
		return f.sql.Seal(ctx, tok)
	}
	err := f.Fence.Seal(ctx, tok)
	if err == nil && f.o.again {
		_ = f.Fence.Tx(ctx, tok, func(pgx.Tx) error { return nil }) // it may be fenced by now
	}
	return err
}

func (f *pgxFence) Add(ctx context.Context, tok shard.Token, account, n int) error {
	switch {
	case f.other():
		return f.sql.Add(ctx, tok, account, n)
	case f.o.batch:
		b := &pgx.Batch{}
		b.Queue(f.add(account, n))
		return f.Batch(ctx, tok, b)
	}
	return f.Tx(ctx, tok, func(tx fencetest.Tx) error { return tx.Add(ctx, account, n) })
}

func (f *pgxFence) Begin(ctx context.Context) (fencetest.Tx, error) {
	tx, err := f.pool.BeginTx(ctx, f.conf.Tx)
	return &pgxTx{f, tx}, err
}

func (f *pgxFence) Tx(ctx context.Context, tok shard.Token, fn func(fencetest.Tx) error) error {
	return f.Fence.Tx(ctx, tok, func(tx pgx.Tx) error { return fn(&pgxTx{f, tx}) })
}

func (f *pgxFence) Advance(ctx context.Context, tx fencetest.Tx, tok shard.Token, stream string, next int64) error {
	return f.Fence.Advance(ctx, tx.(*pgxTx).tx, tok, stream, next)
}

func (f *pgxFence) Addr() string { return f.server.Addr }

func (f *pgxFence) Reopen(addr string) (fencetest.Fence, func()) {
	c := f.pool.Config()
	c.ConnConfig.Host, c.ConnConfig.Port = hostPort(addr)
	c.ConnConfig.Fallbacks = nil
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		panic(err) // it was well before
	}
	again, err := pgxfence.New(pool, f.conf)
	if err != nil {
		panic(err)
	}
	return &pgxFence{accounts: f.accounts, Fence: again, pool: pool, conf: f.conf, o: pgxFenceOptions{batch: f.o.batch, again: f.o.again}}, pool.Close
}

type pgxTx struct {
	f  *pgxFence
	tx pgx.Tx
}

func (x *pgxTx) Add(ctx context.Context, account, n int) error {
	_, err := x.tx.Exec(ctx, x.f.add(account, n))
	return err
}

func (x *pgxTx) Balance(ctx context.Context, account int) (n int, err error) {
	err = x.tx.QueryRow(ctx, x.f.lock(account)).Scan(&n)
	return n, err
}

func (x *pgxTx) Guard(ctx context.Context, tok shard.Token) error {
	return x.f.Guard(ctx, x.tx, tok)
}
func (x *pgxTx) Commit(ctx context.Context) error { return x.tx.Commit(ctx) }

func (x *pgxTx) Rollback(ctx context.Context) error {
	if err := x.tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}
