// Package sqltest connects the suites to SQL databases: SQLite always, Postgres and MariaDB where
// one is named in the environment (see .ci/servers).
package sqltest

import (
	"database/sql"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib" // and the driver pgx
	_ "modernc.org/sqlite"           // the driver sqlite

	"github.com/tenure-go/tenure/owner/fence"
)

// Server is a database under test.
type Server struct {
	Dialect fence.Dialect

	// Open returns a new pool of connections to one database, the same each time. The test closes it.
	Open func(t testing.TB) *sql.DB

	// Via returns a pool that connects to addr instead, where somebody forwards to Addr. nil if there
	// is no network to the database.
	Via  func(addr string) *sql.DB
	Addr string

	// Levels are the isolation levels that the driver takes, the default included.
	Levels []sql.IsolationLevel
}

// manyWriters reports whether a transaction that has written lets others write.
func manyWriters(s Server) bool { return s.Dialect != fence.SQLite }

// SQLite is a database in a file of the test's own.
func SQLite(t testing.TB) Server {
	t.Helper()
	dsn := (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(t.TempDir(), "test.db"), RawQuery: url.Values{
		"_pragma": {"busy_timeout(20000)", "journal_mode(wal)", "synchronous(off)"}, // no test here cuts the power
	}.Encode()}).String()
	return Server{
		Dialect: fence.SQLite,
		Open:    func(t testing.TB) *sql.DB { return open(t, "sqlite", dsn) },
		Levels:  []sql.IsolationLevel{sql.LevelDefault},
	}
}

// Postgres is the server that TENURE_TEST_POSTGRES names, as a URL.
func Postgres(t testing.TB) Server {
	t.Helper()
	dsn := require(t, "TENURE_TEST_POSTGRES")
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return Server{
		Dialect: fence.Postgres,
		Open:    func(t testing.TB) *sql.DB { return open(t, "pgx", dsn) },
		Via: func(addr string) *sql.DB {
			via := c.Copy()
			via.Host, via.Port = hostPort(addr)
			via.Fallbacks = nil
			return pool(stdlib.OpenDB(*via))
		},
		Addr: fmt.Sprintf("%s:%d", c.Host, c.Port),
		Levels: []sql.IsolationLevel{
			sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
		},
	}
}

// MariaDB is the server that TENURE_TEST_MARIADB names, as a DSN of go-sql-driver/mysql.
func MariaDB(t testing.TB) Server {
	t.Helper()
	dsn := require(t, "TENURE_TEST_MARIADB")
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.Logger = &mysql.NopLogger{} // else it prints what the tests do to its connections
	connect := func(c *mysql.Config) *sql.DB {
		connector, err := mysql.NewConnector(c)
		if err != nil {
			panic(err) // the DSN was parsed already
		}
		return pool(sql.OpenDB(connector))
	}
	return Server{
		Dialect: fence.MySQL,
		Open:    func(testing.TB) *sql.DB { return connect(c) },
		Via: func(addr string) *sql.DB {
			via := c.Clone()
			via.Addr = addr
			return connect(via)
		},
		Addr: c.Addr,
		Levels: []sql.IsolationLevel{
			sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
		},
	}
}

// hostPort splits an address that a listener has named.
func hostPort(addr string) (string, uint16) {
	a := netip.MustParseAddrPort(addr)
	return a.Addr().String(), a.Port()
}

func open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	return pool(db)
}

// pool keeps the connections of all workers of a test, rather than to make them again.
func pool(db *sql.DB) *sql.DB {
	db.SetMaxIdleConns(32)
	return db
}

// require returns what the environment variable holds. Without it the test is skipped; but CI
// must not pass because a server was missing.
func require(t testing.TB, name string) string {
	t.Helper()
	if v := os.Getenv(name); v != "" {
		return v
	}
	how := name + " is not set: .ci/servers run go test ./... starts a server and sets it"
	if os.Getenv("CI") == "true" {
		t.Fatal(how)
	}
	t.Skip(how)
	return ""
}
