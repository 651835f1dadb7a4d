package sqlcas

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas"
	"github.com/tenure-go/tenure/cas/sqlcas/pgxcas"
	"github.com/tenure-go/tenure/internal/integration/sqltest"
)

// rig is a database with tables of one test's own, reached through database/sql or pgx.
type rig struct {
	sqltest.Server
	pgx   bool
	table string  // of accounts: id, balance, version; {account} in statements. Receipts are in {account}_receipt
	db    *sql.DB // for looking at it, and never cut
}

var rigs atomic.Int64

// each runs a test on every database, by every way to it.
func each(t *testing.T, run func(*testing.T, *rig)) {
	for _, way := range []struct {
		name   string
		server func(testing.TB) sqltest.Server
		pgx    bool
	}{
		{"sqlite", sqltest.SQLite, false},
		{"postgres", sqltest.Postgres, false},
		{"pgx", sqltest.Postgres, true},
		{"mariadb", sqltest.MariaDB, false},
	} {
		t.Run(way.name, func(t *testing.T) { run(t, newRig(t, way.server(t), way.pgx)) })
	}
}

func newRig(t testing.TB, s sqltest.Server, viaPgx bool) *rig {
	t.Helper()
	r := &rig{Server: s, pgx: viaPgx, table: fmt.Sprintf("cas_%d_%d", os.Getpid(), rigs.Add(1)), db: s.Open(t)}
	t.Cleanup(func() {
		for _, suffix := range []string{"", "_receipt", "_more"} {
			if _, err := r.db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+r.table+suffix); err != nil {
				t.Errorf("drop: %v", err)
			}
		}
		_ = r.db.Close()
	})
	r.exec(t, "CREATE TABLE {account} (id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT NOT NULL)")
	r.exec(t, "INSERT INTO {account} VALUES (1, 100, 1), (2, 100, 1), (3, 100, 1)")
	return r
}

func (r *rig) query(stmt string) string {
	if r.Dialect == sqlcas.Postgres {
		for n := 1; strings.Contains(stmt, "?"); n++ {
			stmt = strings.Replace(stmt, "?", fmt.Sprintf("$%d", n), 1)
		}
	}
	return strings.ReplaceAll(stmt, "{account}", r.table)
}

func (r *rig) exec(t testing.TB, stmt string, args ...any) {
	t.Helper()
	if _, err := r.db.ExecContext(t.Context(), r.query(stmt), args...); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func (r *rig) number(t testing.TB, stmt string, args ...any) (n int64) {
	t.Helper()
	if err := r.db.QueryRowContext(context.Background(), r.query(stmt), args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
	return n
}

func (r *rig) wantBalance(t testing.TB, id, want int64) {
	t.Helper()
	if got := r.number(t, "SELECT balance FROM {account} WHERE id = ?", id); got != want {
		t.Errorf("balance of account %d: got %d, want %d", id, got, want)
	}
}

// options are what a client is made with.
type options struct {
	addr      string // instead of the server's own
	level     sql.IsolationLevel
	tries     int
	observe   func(cas.Effort)
	transient func(error) bool
}

// client is sqlcas or pgxcas, as the rig has it.
type client struct {
	*rig
	sql  *sqlcas.DB
	pool *sql.DB
	pgx  *pgxcas.DB
	pgp  *pgxpool.Pool
}

// tx is a transaction, or a pool.
type tx struct {
	*rig
	sql sqlcas.Querier
	pgx pgxcas.Querier
}

func (r *rig) client(t testing.TB, o options) *client {
	t.Helper()
	c := &client{rig: r}
	var err error
	if r.pgx {
		dsn := os.Getenv("TENURE_TEST_POSTGRES")
		if o.addr != "" {
			u, err := url.Parse(dsn)
			if err != nil {
				t.Fatal(err)
			}
			u.Host = o.addr
			dsn = u.String()
		}
		conf, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		conf.MaxConns = 32
		if c.pgp, err = pgxpool.NewWithConfig(t.Context(), conf); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.pgp.Close)
		opts := pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(map[sql.IsolationLevel]string{
			sql.LevelReadCommitted: "read committed", sql.LevelRepeatableRead: "repeatable read", sql.LevelSerializable: "serializable",
		}[o.level])}
		c.pgx, err = pgxcas.New(c.pgp, pgxcas.Config{
			Tx: opts, Table: r.table + "_receipt", Tries: o.tries, Observe: o.observe, Transient: o.transient,
		})
		if err != nil {
			t.Fatal(err)
		}
	} else {
		if o.addr != "" {
			c.pool = r.Via(o.addr)
		} else {
			c.pool = r.Open(t)
		}
		t.Cleanup(func() { _ = c.pool.Close() })
		if r.Dialect == sqlcas.SQLite {
			o.level = sql.LevelDefault // the driver takes no other; it is serializable
		}
		c.sql, err = sqlcas.New(c.pool, r.Dialect, sqlcas.Config{
			Tx: sql.TxOptions{Isolation: o.level}, Table: r.table + "_receipt", Tries: o.tries, Observe: o.observe, Transient: o.transient,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *client) install(t testing.TB) *client {
	t.Helper()
	var err error
	if c.pgx != nil {
		err = c.pgx.Install(t.Context())
	} else {
		err = c.sql.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *client) direct() tx { return tx{c.rig, c.pool, c.pgp} }

func (c *client) retry(ctx context.Context, fn func(tx) error) error {
	if c.pgx != nil {
		return c.pgx.Retry(ctx, func(p pgx.Tx) error { return fn(tx{c.rig, nil, p}) })
	}
	return c.sql.Retry(ctx, func(s *sql.Tx) error { return fn(tx{c.rig, s, nil}) })
}

func (c *client) once(ctx context.Context, id string, fn func(tx) error) error {
	if c.pgx != nil {
		return c.pgx.Once(ctx, id, func(p pgx.Tx) error { return fn(tx{c.rig, nil, p}) })
	}
	return c.sql.Once(ctx, id, func(s *sql.Tx) error { return fn(tx{c.rig, s, nil}) })
}

func (c *client) resolve(ctx context.Context, id string) (cas.Outcome, error) {
	if c.pgx != nil {
		return c.pgx.Resolve(ctx, id)
	}
	return c.sql.Resolve(ctx, id)
}

func (c *client) sweep(ctx context.Context, age time.Duration) (int, error) {
	if c.pgx != nil {
		return c.pgx.Sweep(ctx, age)
	}
	return c.sql.Sweep(ctx, age)
}

func (x tx) exec(ctx context.Context, stmt string, args ...any) (err error) {
	if x.rig.pgx {
		_, err = x.pgx.Exec(ctx, x.query(stmt), args...)
	} else {
		_, err = x.sql.ExecContext(ctx, x.query(stmt), args...)
	}
	return err
}

func (x tx) number(ctx context.Context, stmt string, args ...any) (n int64, err error) {
	if x.rig.pgx {
		rows, err := x.pgx.Query(ctx, x.query(stmt), args...)
		if err != nil {
			return 0, err
		}
		return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	}
	rows, err := x.sql.QueryContext(ctx, x.query(stmt), args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&n); err != nil {
			return 0, err
		}
	}
	return n, rows.Err()
}

func (x tx) add(ctx context.Context, id, n int64) error {
	return x.exec(ctx, "UPDATE {account} SET balance = balance + ? WHERE id = ?", n, id)
}

// table is sqlcas.Table or pgxcas.Table.
type table struct {
	sql *sqlcas.Table
	pgx *pgxcas.Table
}

func (r *rig) accounts(t testing.TB) table { return r.versioned(t, r.table, "version", "id") }

func (r *rig) versioned(t testing.TB, name, version string, key ...string) (v table) {
	t.Helper()
	var err error
	if r.pgx {
		v.pgx, err = pgxcas.NewTable(name, version, key...)
	} else {
		v.sql, err = sqlcas.NewTable(r.Dialect, name, version, key...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (v table) update(ctx context.Context, x tx, key sqlcas.Key, seen int64, set sqlcas.Set) (int64, error) {
	if v.pgx != nil {
		return v.pgx.Update(ctx, x.pgx, key, seen, set)
	}
	return v.sql.Update(ctx, x.sql, key, seen, set)
}

func (v table) insert(ctx context.Context, x tx, key sqlcas.Key, set sqlcas.Set) (int64, error) {
	if v.pgx != nil {
		return v.pgx.Insert(ctx, x.pgx, key, set)
	}
	return v.sql.Insert(ctx, x.sql, key, set)
}

func (v table) delete(ctx context.Context, x tx, key sqlcas.Key, seen int64) error {
	if v.pgx != nil {
		return v.pgx.Delete(ctx, x.pgx, key, seen)
	}
	return v.sql.Delete(ctx, x.sql, key, seen)
}
