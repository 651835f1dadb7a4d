package idem

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/idemtest"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
)

func TestPgx(t *testing.T) {
	require(t, "TENURE_TEST_POSTGRES")
	idemtest.Suite{Open: func(t *testing.T) idemtest.Harness { return pgxHarness(t, pgxidem.Config{}) }}.Run(t)
}

func TestPgx_RepeatableRead(t *testing.T) {
	require(t, "TENURE_TEST_POSTGRES")
	c := pgxidem.Config{Tx: pgx.TxOptions{IsoLevel: pgx.RepeatableRead}}
	idemtest.Suite{Open: func(t *testing.T) idemtest.Harness { return pgxHarness(t, c) }}.Run(t)
}

// pgxPool connects to the test's server, or to a proxy in front of it.
func pgxPool(t testing.TB, addr string, edit ...func(*pgx.ConnConfig)) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(require(t, "TENURE_TEST_POSTGRES"))
	if err != nil {
		t.Fatal(err)
	}
	if addr != "" {
		c.ConnConfig = throughPostgres(t, c.ConnConfig, addr)
	}
	for _, e := range edit {
		e(c.ConnConfig)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func pgxStore(t testing.TB, pool *pgxpool.Pool, c pgxidem.Config, table string) *pgxidem.Store {
	t.Helper()
	c.Table = table
	s, err := pgxidem.New(pool, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pgxDeposit adds 1 to account, and returns the balance.
func (b *bank) pgxDeposit(ctx context.Context, tx pgx.Tx, account string) (n int, err error) {
	err = tx.QueryRow(ctx, "INSERT INTO "+b.accounts+" AS a (id, balance) VALUES ($1, 1) "+
		"ON CONFLICT (id) DO UPDATE SET balance = a.balance + 1 RETURNING balance", account).Scan(&n)
	return n, err
}

func pgxHarness(t *testing.T, c pgxidem.Config) idemtest.Harness {
	d := postgres(t)
	b, l, pool := newBank(t, d), &lossy{}, pgxPool(t, "")
	body := func(ctx context.Context, s idem.Store, account string, effect func() error) func(pgx.Tx) (int, error) {
		return func(tx pgx.Tx) (int, error) {
			n, err := b.pgxDeposit(ctx, tx, account)
			if err == nil && effect != nil {
				err = effect()
			}
			l.arm(s)
			return n, err
		}
	}
	step := func(options ...pgxidem.Option) func(context.Context, *idem.Op, string, string, func() error) (int, error) {
		return func(ctx context.Context, op *idem.Op, name, account string, effect func() error) (int, error) {
			return pgxidem.StepTx(ctx, op, name, body(ctx, op.Store(), account, effect), options...)
		}
	}
	return idemtest.Harness{
		Open:   func(t testing.TB) idem.Store { return pgxStore(t, pool, c, b.table) },
		Elapse: func(t testing.TB, d time.Duration) { b.elapse(t, d.Milliseconds()) },
		Step:   func(t testing.TB, d time.Duration) { b.elapse(t, d.Milliseconds()) },
		Tx: &idemtest.Tx{
			Do: func(ctx context.Context, e *idem.Engine, q idem.Request, account string, effect func() error) (int, error) {
				return pgxidem.DoTx(ctx, e, q, body(ctx, e.Store(), account, effect))
			},
			Step:    step(),
			Last:    step(pgxidem.Last),
			Balance: b.balance,
			LoseCommit: func(t testing.TB, applied bool) idem.Store {
				p := startProxy(t, d.addr, applied)
				// Without prepared statements, or the proxy would take preparing a COMMIT for one.
				s := pgxStore(t, pgxPool(t, p.addr(), func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeExec }), c, b.table)
				l.add(s, p)
				return s
			},
		},
	}
}
