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

// While some transaction holds the row in share mode, who wants it alone waits, and later share locks
// overtake. wanted ends the chain.
func TestPostgres_ShareLocksOvertake(t *testing.T) {
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
		_, err := b.db.ExecContext(ctx, b.query("SELECT 1 FROM {fence} FOR UPDATE"))
		updated <- err
	}()
	naive, _ := chain(updated)
	_ = first.Rollback()
	if !errors.Is(naive, context.DeadlineExceeded) {
		t.Errorf("FOR UPDATE under a chain of guards: got %v, want it to starve", naive)
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
		l := loaded{err: b.execIn(t, one, "UPDATE {fence} SET epoch = epoch + 1, permit = NULL")}
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

// Between a seal's two steps a newer one may have begun: the second step, once it has waited for the last writer, sees that.
func TestPostgres_SealThatHasWaitedDoesNotPassANewerOne(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	last := b.begin(t, sql.LevelReadCommitted)
	if err := b.Guard(t.Context(), last, token(1)); err != nil {
		t.Fatal(err)
	}
	seal := func(epoch int64) <-chan error {
		sealed := make(chan error, 1)
		go func() { sealed <- b.Seal(t.Context(), token(epoch)) }()
		return sealed
	}
	older := seal(2)
	b.eventually(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{fence}%'", 1)
	newer := seal(3)
	b.eventually(t, fmt.Sprintf("SELECT count(*) FROM {fence} WHERE wanted = %d", token(3).Epoch), 1)
	if err := last.Commit(); err != nil {
		t.Fatal(err)
	}
	e, ok := errors.AsType[*fence.FencedError](<-older)
	if !ok || e.Current != token(3).Epoch {
		t.Errorf("the older Seal: got %v, want it fenced by %s", e, token(3).Epoch)
	}
	if err := <-newer; err != nil {
		t.Errorf("the newer Seal: %v", err)
	}
	if got := b.number(t, "SELECT epoch FROM {fence}"); got != int64(token(3).Epoch) {
		t.Errorf("epoch: got %d, want %d", got, token(3).Epoch)
	}
}

// So it sees that the row is another group's by now, which only somebody's hand makes it.
func TestPostgres_SealThatHasWaitedLooksAtTheGroup(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	hand := b.begin(t, sql.LevelReadCommitted)
	if err := b.execIn(t, hand, "UPDATE {fence} SET group_id = 'another'"); err != nil {
		t.Fatal(err)
	}
	sealed := make(chan error, 1)
	go func() { sealed <- b.Seal(t.Context(), token(2)) }()
	b.eventually(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{fence}%'", 1)
	if err := hand.Commit(); err != nil {
		t.Fatal(err)
	}
	err := <-sealed
	if _, ok := errors.AsType[*fence.GroupError](err); !ok {
		t.Errorf("Seal: got %v, want GroupError", err)
	}
	if got := b.number(t, "SELECT epoch FROM {fence}"); got != int64(token(1).Epoch) {
		t.Errorf("epoch: got %d, want %d as before", got, token(1).Epoch)
	}
}
