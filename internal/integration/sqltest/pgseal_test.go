package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner/fence"
)

// While some transaction holds the row in share mode, an update of it waits, and later share locks
// overtake it. wanted ends the chain.
func TestPostgres_ShareLocksOvertakeAnUpdate(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	hold := func(tok int64) (*sql.Tx, error) {
		tx := b.begin(t, sql.LevelReadCommitted)
		return tx, b.Guard(t.Context(), tx, token(tok))
	}
	// Hands over from one transaction to the next, the next one first, until step is done.
	chain := func(done <-chan error) (error, error) {
		last, err := hold(1)
		for n := 0; err == nil; n++ {
			select {
			case err := <-done:
				return err, last.Rollback()
			default:
			}
			var next *sql.Tx
			next, err = hold(1)
			_ = last.Rollback()
			last = next
		}
		return <-done, err
	}
	updated := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	first, err := hold(1)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := b.db.ExecContext(ctx, b.query("UPDATE {fence} SET epoch = epoch + 1"))
		updated <- err
	}()
	naive, _ := chain(updated)
	_ = first.Rollback()
	if !errors.Is(naive, context.DeadlineExceeded) {
		t.Errorf("an update under a chain of guards: got %v, want it to starve", naive)
	}

	go func() { updated <- b.Seal(t.Context(), token(2)) }()
	sealed, refused := chain(updated)
	if sealed != nil {
		t.Errorf("Seal: %v", sealed)
	}
	if _, ok := errors.AsType[*fence.FencedError](refused); !ok && refused != nil {
		t.Errorf("the chain ended with %v, want FencedError", refused)
	}
}

// A transaction that seals and loads has its snapshot from before it waited for the last writer.
func TestPostgres_SealAndLoadInOneTransactionLoadsStaleState(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	last := b.begin(t, sql.LevelReadCommitted)
	if err := b.execIn(t, last, "UPDATE {account} SET balance = 17 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	if err := b.Guard(t.Context(), last, token(1)); err != nil {
		t.Fatal(err)
	}
	type loaded struct {
		balance int
		err     error
	}
	done := make(chan loaded, 1)
	one := b.begin(t, sql.LevelRepeatableRead)
	var pid int
	if err := one.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	go func() {
		l := loaded{err: b.execIn(t, one, "UPDATE {fence} SET epoch = epoch + 1")}
		if l.err == nil {
			l.err = one.QueryRowContext(t.Context(), b.query("SELECT balance FROM {account} WHERE id = 1")).Scan(&l.balance)
		}
		done <- l
	}()
	b.eventually(t, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'", pid), 1)
	if err := last.Commit(); err != nil {
		t.Fatal(err)
	}
	if l := <-done; l.err != nil || l.balance != 0 {
		t.Errorf("got balance %d, %v, want the stale 0", l.balance, l.err)
	}
	b.wantBalance(t, 1, 17)
}

// An update that has waited looks at the row again, but at other tables in the snapshot from
// before it waited. So the seal's second step compares the epoch itself, too.
func TestPostgres_SealThatHasWaitedDoesNotLowerTheEpoch(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	newer := b.begin(t, sql.LevelReadCommitted)
	raise := func(table string) {
		t.Helper()
		if err := b.execIn(t, newer, fmt.Sprintf("UPDATE %s SET epoch = %d", table, int64(token(3).Epoch))); err != nil {
			t.Fatal(err)
		}
	}
	raise("{fence}")
	sealed := make(chan error, 1)
	go func() { sealed <- b.Seal(t.Context(), token(2)) }()
	b.eventually(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{fence}%'", 1)
	raise("{fence}_wanted")
	if err := newer.Commit(); err != nil {
		t.Fatal(err)
	}
	e, ok := errors.AsType[*fence.FencedError](<-sealed)
	if !ok || e.Current != token(3).Epoch {
		t.Errorf("Seal: got %v, want it fenced by %s", e, token(3).Epoch)
	}
	if got := b.number(t, "SELECT epoch FROM {fence}"); got != int64(token(3).Epoch) {
		t.Errorf("epoch: got %d, want %d", got, token(3).Epoch)
	}
}

// What locks a row that somebody has rewritten meanwhile must still see that it was changed.
func TestPostgres_SnapshotFromBeforeTheSealAndARewrite(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for _, rewrite := range []string{"VACUUM FULL {fence}", "CLUSTER {fence} USING {fence}_pkey"} {
			t.Run(level.String()+"/"+rewrite, func(t *testing.T) {
				b := newBank(t, Postgres(t), fence.SQLConfig{Tx: sql.TxOptions{Isolation: level}})
				err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
					if err := b.execIn(t, tx, "UPDATE {account} SET balance = 17 WHERE id = 1"); err != nil {
						return err
					}
					b.seal(t, 2)
					b.exec(t, rewrite)
					b.wantBalance(t, 1, 0) // what the successor loads
					return nil
				})
				if _, ok := errors.AsType[*fence.FencedError](err); !ok {
					t.Errorf("got %v, want FencedError", err)
				}
				b.wantBalance(t, 1, 0)
			})
		}
	}
}

// Two SealAlls that wait at once both get through, also if the table does not have the rows in the order of the shards.
func TestPostgres_SealAllsDoNotDeadlock(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	first := token(1)
	for n := 9; n >= 0; n-- { // newBank has sealed one of them before
		tok := first
		tok.Shard = n
		if err := b.Seal(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(t, "VACUUM ANALYZE {fence}")
	last := b.begin(t, sql.LevelReadCommitted)
	if err := b.Guard(t.Context(), last, first); err != nil {
		t.Fatal(err)
	}
	all := make(chan error, 2)
	for i := range 2 {
		go func() { all <- b.SealAll(t.Context(), first.Group, 34+i) }()
		b.eventually(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{fence}%' AND pid <> pg_backend_pid()", int64(i+1))
	}
	if err := last.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-all; err != nil {
			t.Errorf("SealAll: %v", err)
		}
	}
}
