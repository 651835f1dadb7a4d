package idem

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/tenure-go/tenure/idem/sqlidem"
)

// database is one under test.
type database struct {
	dialect sqlidem.Dialect
	open    func(t testing.TB) *sql.DB              // a new pool
	via     func(t testing.TB, addr string) *sql.DB // through a proxy; nil if there is no network to it
	addr    string
}

func sqlite(t testing.TB) database {
	dsn := (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(t.TempDir(), "test.db"), RawQuery: url.Values{
		"_pragma": {"busy_timeout(20000)", "journal_mode(wal)", "synchronous(off)"}, // no test here cuts the power
	}.Encode()}).String()
	return database{dialect: sqlidem.SQLite, open: func(t testing.TB) *sql.DB {
		t.Helper()
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		return closing(t, db)
	}}
}

func postgres(t testing.TB) database {
	c := postgresConfig(t)
	return database{
		dialect: sqlidem.Postgres,
		open:    func(t testing.TB) *sql.DB { return closing(t, stdlib.OpenDB(*c)) },
		via: func(t testing.TB, addr string) *sql.DB {
			return closing(t, stdlib.OpenDB(*throughPostgres(t, c, addr)))
		},
		addr: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))),
	}
}

func postgresConfig(t testing.TB) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(require(t, "TENURE_TEST_POSTGRES"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func throughPostgres(t testing.TB, c *pgx.ConnConfig, addr string) *pgx.ConnConfig {
	t.Helper()
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	c = c.Copy()
	c.Host, c.Port, c.Fallbacks = a.Addr().String(), a.Port(), nil
	return c
}

func mariadb(t testing.TB) database {
	c, err := mysql.ParseDSN(require(t, "TENURE_TEST_MARIADB"))
	if err != nil {
		t.Fatal(err)
	}
	c.Logger = &mysql.NopLogger{} // else it prints what the tests do to its connections
	connect := func(t testing.TB, c *mysql.Config) *sql.DB {
		t.Helper()
		connector, err := mysql.NewConnector(c)
		if err != nil {
			t.Fatal(err)
		}
		return closing(t, sql.OpenDB(connector))
	}
	return database{
		dialect: sqlidem.MySQL,
		open:    func(t testing.TB) *sql.DB { return connect(t, c) },
		via: func(t testing.TB, addr string) *sql.DB {
			via := c.Clone()
			via.Addr = addr
			return connect(t, via)
		},
		addr: c.Addr,
	}
}

func closing(t testing.TB, db *sql.DB) *sql.DB {
	db.SetMaxIdleConns(32) // those of all workers of a test, rather than to make them again
	t.Cleanup(func() { _ = db.Close() })
	return db
}

var tables atomic.Int64

// bank is a table of operations and one of accounts, in one database.
type bank struct {
	database
	db       *sql.DB
	table    string
	accounts string
}

func newBank(t testing.TB, d database) *bank {
	t.Helper()
	b := &bank{database: d, db: d.open(t), table: fmt.Sprintf("idem_%d_%d", os.Getpid(), tables.Add(1))}
	b.accounts = b.table + "_account"
	t.Cleanup(func() {
		for _, table := range []string{b.table, b.accounts} {
			if _, err := b.db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+table); err != nil {
				t.Errorf("drop: %v", err)
			}
		}
	})
	if err := b.store(t, b.db, sqlidem.Config{}).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "CREATE TABLE "+b.accounts+" (id VARCHAR(64) NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)")
	return b
}

func (b *bank) store(t testing.TB, db *sql.DB, c sqlidem.Config) *sqlidem.Store {
	t.Helper()
	c.Table = b.table
	s, err := sqlidem.New(db, b.dialect, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *bank) exec(t testing.TB, stmt string) {
	t.Helper()
	if _, err := b.db.ExecContext(context.Background(), stmt); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

// elapse moves all that is stored into the past: for the records, that is what passing time is.
func (b *bank) elapse(t testing.TB, ms int64) {
	t.Helper()
	for _, column := range []string{"attempt_until", "replay_until", "forget_at"} {
		b.exec(t, fmt.Sprintf("UPDATE %s SET %s = %[2]s - %d WHERE %[2]s > 0", b.table, column, ms))
	}
}

func (b *bank) number(t testing.TB, query string) int {
	t.Helper()
	var n int
	if err := b.db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (b *bank) balance(t testing.TB, account string) int {
	t.Helper()
	return b.number(t, fmt.Sprintf("SELECT COALESCE(SUM(balance), 0) FROM %s WHERE id = '%s'", b.accounts, account))
}

// deposit adds 1 to account, and returns the balance.
func (b *bank) deposit(ctx context.Context, tx *sql.Tx, account string) (n int, err error) {
	add := "INSERT INTO " + b.accounts + " AS a (id, balance) VALUES ('" + account + "', 1) ON CONFLICT (id) DO UPDATE SET balance = a.balance + 1"
	if b.dialect == sqlidem.MySQL {
		add = "INSERT INTO " + b.accounts + " (id, balance) VALUES ('" + account + "', 1) ON DUPLICATE KEY UPDATE balance = balance + 1"
	}
	if _, err := tx.ExecContext(ctx, add); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT balance FROM "+b.accounts+" WHERE id = '"+account+"'").Scan(&n)
	return n, err
}
