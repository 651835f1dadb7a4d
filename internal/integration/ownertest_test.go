package integration

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"

	_ "modernc.org/sqlite"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/ownertest"
)

// TestZombieCannotDeposit is the test that a user would write: a real service under a real fence, on virtual time.
func TestZombieCannotDeposit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:zombie?mode=memory&cache=shared&_pragma=busy_timeout(5000)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		db.SetMaxOpenConns(1)
		fences, err := fence.NewSQL(db, fence.SQLite, fence.SQLConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := fences.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER)"); err != nil {
			t.Fatal(err)
		}
		deposit := func(tn *owner.Tenure, n int) error {
			return fences.Tx(t.Context(), tn.Token(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO account VALUES ('alice', ?) ON CONFLICT DO UPDATE SET balance = balance + ?", n, n)
				return err
			})
		}

		c := ownertest.Start(t, 3, bank, fences.Serve, owner.Config{})
		old := c.Tenure("alice")
		if err := deposit(old, 10); err != nil {
			t.Fatal(err)
		}
		c.Lose("alice") // paused past its lease
		c.Settle()      // somebody else owns alice
		err = deposit(old, 10)
		if _, ok := errors.AsType[*fence.FencedError](err); !ok {
			t.Errorf("the zombie's deposit: got %v, want FencedError", err)
		}
		if err := deposit(c.Tenure("alice"), 1); err != nil {
			t.Errorf("the owner's deposit: %v", err)
		}
		var balance int
		if err := db.QueryRowContext(context.Background(), "SELECT balance FROM account").Scan(&balance); err != nil || balance != 11 {
			t.Errorf("balance: got %d, %v, want 11", balance, err)
		}
	})
}
