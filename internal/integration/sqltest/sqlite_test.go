package sqltest

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

func sqliteAt(dsn string) Server {
	return Server{
		Dialect: fence.SQLite,
		Open:    func(t testing.TB) *sql.DB { return open(t, "sqlite", dsn) },
	}
}

// In memory, each connection has a database of its own, so there can be but one.
func TestSQLite_InMemory(t *testing.T) {
	s := Server{Dialect: fence.SQLite, Open: func(t testing.TB) *sql.DB {
		db := open(t, "sqlite", ":memory:")
		db.SetMaxOpenConns(1)
		return db
	}}
	b := newBank(t, s, fence.SQLConfig{})
	deposit := func(revision int64) error {
		return b.Tx(t.Context(), token(revision), func(tx *sql.Tx) error {
			return b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1")
		})
	}
	if err := deposit(1); err != nil {
		t.Error(err)
	}
	b.seal(t, 2)
	if _, ok := errors.AsType[*fence.FencedError](deposit(1)); !ok {
		t.Error("want FencedError")
	}
	b.wantBalance(t, 1, 1)
}

// With a rollback journal a COMMIT waits for readers. Refused as busy, it is not applied.
func TestSQLite_BusyCommitIsNotApplied(t *testing.T) {
	b := newBank(t, sqliteAt("file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=journal_mode(delete)"), fence.SQLConfig{})
	reader := b.begin(t, sql.LevelDefault)
	var n int
	if err := reader.QueryRowContext(t.Context(), b.query("SELECT count(*) FROM {account}")).Scan(&n); err != nil {
		t.Fatal(err)
	}
	deposit := func() error {
		return b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
			return b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1")
		})
	}
	err := deposit()
	if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code() != 5 {
		t.Errorf("got %v, want SQLITE_BUSY", err)
	}
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	b.wantBalance(t, 1, 0)
	if err := deposit(); err != nil {
		t.Error(err)
	}
	b.wantBalance(t, 1, 1)
}

// Whoever fences SQLite without a busy timeout hears of it at once, and is told what was done.
func TestSQLite_BusyWithoutTimeout(t *testing.T) {
	b := newBank(t, sqliteAt("file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=journal_mode(wal)"), fence.SQLConfig{})
	writer := b.begin(t, sql.LevelDefault)
	if err := b.execIn(t, writer, "UPDATE {account} SET balance = 17 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err := b.Tx(t.Context(), token(1), func(*sql.Tx) error { t.Error("fn ran"); return nil })
	if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code() != 5 || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("Tx: got %v (%s), want SQLITE_BUSY, not applied", err, cas.OutcomeOf(err))
	}
	if err := b.Seal(t.Context(), token(2)); err == nil {
		t.Error("Seal: got nil, want SQLITE_BUSY")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}
