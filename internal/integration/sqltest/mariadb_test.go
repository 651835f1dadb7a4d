package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

// deadlock makes tx the victim of a deadlock, and returns what the server said to it.
func (b *bank) deadlock(t *testing.T, tx *sql.Tx) error {
	t.Helper()
	if err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1"); err != nil {
		return err
	}
	// The other one has changed more, so it is not the victim.
	other := b.begin(t, sql.LevelDefault)
	b.exec(t, "INSERT INTO {account} VALUES (3, 0), (4, 0), (5, 0), (6, 0) ON DUPLICATE KEY UPDATE balance = 0")
	for _, stmt := range []string{
		"UPDATE {account} SET balance = 9 WHERE id >= 3",
		"UPDATE {account} SET balance = 9 WHERE id = 2",
	} {
		if err := b.execIn(t, other, stmt); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- b.execIn(t, other, "UPDATE {account} SET balance = 9 WHERE id = 1") }()
	err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 2")
	<-done
	_ = other.Rollback()
	return err
}

// After a deadlock the server has rolled back, and with autocommit on it commits what follows one
// by one.
func TestMariaDB_SwallowedDeadlockCommitsNothing(t *testing.T) {
	b := newBank(t, MariaDB(t), fence.SQLConfig{})
	err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
		e, ok := errors.AsType[*mysql.MySQLError](b.deadlock(t, tx))
		if !ok || e.Number != 1213 {
			t.Errorf("got %v, want error 1213", e)
		}
		return b.execIn(t, tx, "UPDATE {account} SET balance = balance + 100 WHERE id = 1") // as if nothing had happened
	})
	if err == nil {
		t.Error("Tx went on after a deadlock")
	}
	if got := cas.OutcomeOf(err); got == cas.Applied {
		t.Errorf("outcome: got %s", got)
	}
	b.wantBalance(t, 1, 0)
	b.wantBalance(t, 2, 0)
}

// What MySQL does by itself, and why Tx does not leave autocommit on.
func TestMariaDB_SwallowedDeadlockAutocommitsInAPlainTransaction(t *testing.T) {
	b := newBank(t, MariaDB(t), fence.SQLConfig{})
	tx := b.begin(t, sql.LevelDefault)
	_ = b.deadlock(t, tx)
	if err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 100 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	_ = tx.Rollback()
	b.wantBalance(t, 1, 100)
}

func TestMariaDB_ImplicitCommitIsNoticed(t *testing.T) {
	b := newBank(t, MariaDB(t), fence.SQLConfig{})
	err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
		if err := b.execIn(t, tx, "UPDATE {account} SET balance = 17 WHERE id = 1"); err != nil {
			return err
		}
		return b.execIn(t, tx, "ALTER TABLE {account} ADD COLUMN note INTEGER")
	})
	if err == nil || cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("got %v (%s), want an error that is uncertain", err, cas.OutcomeOf(err))
	}
}

func TestMariaDB_SettingsAreRestored(t *testing.T) {
	b := newBank(t, MariaDB(t), fence.SQLConfig{Idle: 1500 * time.Millisecond})
	b.db.SetMaxOpenConns(1)
	b.exec(t, "SET SESSION idle_transaction_timeout = 77")
	const settings = "SELECT @@autocommit * 1000 + @@idle_transaction_timeout"
	if got := b.number(t, settings); got != 1077 {
		t.Fatalf("settings before: got %d, want 1077", got)
	}
	id := b.number(t, "SELECT CONNECTION_ID()")
	inside := func(tx *sql.Tx) error {
		var n int
		err := tx.QueryRowContext(t.Context(), settings).Scan(&n)
		if n != 2 { // rounded up
			t.Errorf("settings inside: got %d, want 2", n)
		}
		return err
	}
	boom := errors.New("boom")
	for what, run := range map[string]func() error{
		"applied":   func() error { return b.Tx(t.Context(), token(1), inside) },
		"fenced":    func() error { return b.Tx(t.Context(), token(2), inside) },
		"fn failed": func() error { return b.Tx(t.Context(), token(1), func(*sql.Tx) error { return boom }) },
		"fn panicked": func() (err error) {
			defer func() { err, _ = recover().(error) }()
			return b.Tx(t.Context(), token(1), func(*sql.Tx) error { panic(boom) })
		},
	} {
		err := run()
		if got := b.number(t, settings); got != 1077 {
			t.Errorf("%s (%v): settings after: got %d, want 1077", what, err, got)
		}
		if now := b.number(t, "SELECT CONNECTION_ID()"); now != id {
			t.Errorf("%s (%v): the connection was discarded", what, err)
		}
	}

	// When it is not known what state it is in, the connection goes, and the settings with it.
	ctx, cancel := context.WithCancel(t.Context())
	_ = b.Tx(ctx, token(1), func(tx *sql.Tx) error {
		cancel()
		for { // until database/sql has rolled back
			if _, err := tx.ExecContext(t.Context(), "DO 0"); errors.Is(err, sql.ErrTxDone) {
				return err
			}
		}
	})
	if got := b.number(t, settings); got < 1000 || got == 1002 {
		t.Errorf("settings after the context's end: got %d, want the server's own", got)
	}
}

func TestMariaDB_IdleOnlyShortens(t *testing.T) {
	b := newBank(t, MariaDB(t), fence.SQLConfig{Idle: 5 * time.Second})
	b.db.SetMaxOpenConns(1)
	for session, want := range map[int]int{0: 5, 2: 2, 5: 5, 77: 5} {
		b.exec(t, fmt.Sprintf("SET SESSION idle_transaction_timeout = %d", session))
		err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
			var got int
			err := tx.QueryRowContext(t.Context(), "SELECT @@idle_transaction_timeout").Scan(&got)
			if got != want {
				t.Errorf("session at %d: got %d inside, want %d", session, got, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if got := b.number(t, "SELECT @@idle_transaction_timeout"); got != int64(session) {
			t.Errorf("after: got %d, want %d", got, session)
		}
	}
}

// A pool hands out connections that the server has closed meanwhile. database/sql replaces them where
// it picks the connection itself, so Tx must where it does.
func TestMariaDB_DeadConnectionsAreReplaced(t *testing.T) {
	s := MariaDB(t)
	b := newBank(t, s, fence.SQLConfig{})
	killer := s.Open(t)
	t.Cleanup(func() { _ = killer.Close() })
	b.db.SetMaxOpenConns(1)
	for range 3 {
		id := b.number(t, "SELECT CONNECTION_ID()")
		if _, err := killer.ExecContext(t.Context(), "KILL ?", id); err != nil {
			t.Fatal(err)
		}
		if err := b.Tx(t.Context(), token(1), func(*sql.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}
