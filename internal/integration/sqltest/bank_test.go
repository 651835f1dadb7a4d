package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// bank is a fence and a table of accounts, with names of its own, for what only one database does.
type bank struct {
	*fence.SQL
	db    *sql.DB
	table string // the fence's; its accounts, 1 and 2, are in table_account
}

var banks atomic.Int64

func newBank(t testing.TB, s Server, c fence.SQLConfig) *bank {
	t.Helper()
	b := newBankOn(t, s.Open(t), s, c)
	b.seal(t, 1)
	return b
}

// newBankOn is newBank on a pool that it closes in the end. Nothing is sealed.
func newBankOn(t testing.TB, db *sql.DB, s Server, c fence.SQLConfig) *bank {
	t.Helper()
	b := &bank{db: db, table: fmt.Sprintf("bank_%d_%d", os.Getpid(), banks.Add(1))}
	c.Table = b.table
	var err error
	if b.SQL, err = fence.NewSQL(b.db, s.Dialect, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, stmt := range append(dialect.NewFence(s.Dialect, b.table).Drop, "DROP TABLE IF EXISTS "+b.table+"_account") {
			if _, err := b.db.ExecContext(context.Background(), stmt); err != nil {
				t.Errorf("drop: %v", err)
			}
		}
		_ = b.db.Close()
	})
	if err := b.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "CREATE TABLE {account} (id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)")
	b.exec(t, "INSERT INTO {account} VALUES (1, 0), (2, 0)")
	return b
}

// query puts the tables' names into stmt.
func (b *bank) query(stmt string) string {
	return strings.NewReplacer("{fence}", b.table, "{account}", b.table+"_account").Replace(stmt)
}

func (b *bank) exec(t testing.TB, stmt string) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), b.query(stmt)); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func (b *bank) execIn(t testing.TB, tx *sql.Tx, stmt string) error {
	_, err := tx.ExecContext(t.Context(), b.query(stmt))
	return err
}

func (b *bank) seal(t testing.TB, revision int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := b.Seal(ctx, token(revision)); err != nil {
		t.Fatal(err)
	}
}

func (b *bank) begin(t testing.TB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := b.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// number returns what a query of one number finds.
func (b *bank) number(t testing.TB, stmt string) (n int64) {
	t.Helper()
	if err := b.db.QueryRowContext(t.Context(), b.query(stmt)).Scan(&n); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
	return n
}

func (b *bank) wantBalance(t testing.TB, id, want int64) {
	t.Helper()
	if got := b.number(t, fmt.Sprintf("SELECT balance FROM {account} WHERE id = %d", id)); got != want {
		t.Errorf("balance of account %d: got %d, want %d", id, got, want)
	}
}

func token(revision int64) shard.Token {
	return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: 33<<48 | shard.Epoch(revision)}
}
