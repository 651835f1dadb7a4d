package idem

import (
	"context"
	"database/sql"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem"
)

// After a deadlock the server has rolled back, and goes on as if nothing had happened. A function that does
// not notice must not have half of it recorded as done.
func TestMariaDB_SwallowedDeadlock(t *testing.T) {
	b := newBank(t, mariadb(t))
	e, err := idem.New(b.store(t, b.db, sqlidem.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, "INSERT INTO "+b.accounts+" SELECT CHAR(96 + seq), 0 FROM seq_1_to_26")
	add := func(ctx context.Context, tx *sql.Tx, id string) error {
		_, err := tx.ExecContext(ctx, "UPDATE "+b.accounts+" SET balance = balance + 1 WHERE id = ?", id)
		return err
	}
	deadlock := func(ctx context.Context, tx *sql.Tx) error {
		if err := add(ctx, tx, "a"); err != nil {
			return err
		}
		// The other one has changed more, so it is not the victim.
		other, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer other.Rollback()
		for id := 'b'; id <= 'z'; id++ {
			if err := add(ctx, other, string(id)); err != nil {
				return err
			}
		}
		done := make(chan error, 1)
		go func() { done <- add(ctx, other, "a") }()
		if add(ctx, tx, "b") == nil {
			t.Error("no deadlock")
		}
		return <-done
	}
	half := func(tx *sql.Tx) (int, error) {
		if err := deadlock(t.Context(), tx); err != nil {
			t.Error(err)
		}
		return 1, add(t.Context(), tx, "a")
	}
	whole := func(tx *sql.Tx) (int, error) { return 1, add(t.Context(), tx, "a") }
	for i, run := range []func(fn func(*sql.Tx) (int, error)) (int, error){
		func(fn func(*sql.Tx) (int, error)) (int, error) {
			return sqlidem.DoTx(t.Context(), e, idem.Request{Scope: t.Name(), Key: "do"}, fn)
		},
		func(fn func(*sql.Tx) (int, error)) (int, error) {
			return idem.Do(t.Context(), e, idem.Request{Scope: t.Name(), Key: "step"}, func(ctx context.Context, op *idem.Op) (int, error) {
				return sqlidem.StepTx(ctx, op, "book", fn)
			})
		},
	} {
		if _, err := run(half); err == nil || cas.OutcomeOf(err) == cas.Applied {
			t.Errorf("%d: got %v (%s), want an error", i, err, cas.OutcomeOf(err))
		}
		if got := b.balance(t, "a"); got != i {
			t.Errorf("%d: balance: got %d, want %[1]d", i, got)
		}
		if _, err := run(whole); err != nil || b.balance(t, "a") != i+1 {
			t.Errorf("%d: then: got %v, balance %d, want %d", i, err, b.balance(t, "a"), i+1)
		}
	}
	if got := b.number(t, "SELECT @@autocommit"); got != 1 {
		t.Errorf("autocommit: got %d, want it restored", got)
	}
}
