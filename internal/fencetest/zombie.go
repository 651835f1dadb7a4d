package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// PausedHolder is a holder that is paused before its write, wakes after its successor has written,
// and writes an absolute value that it worked out before, under a context that nothing ends.
func PausedHolder(t *testing.T, s Server) {
	for _, where := range []string{"before the transaction", "inside the transaction"} {
		if where == "inside the transaction" && !s.manyWriters() {
			continue // there it blocks everybody, so the successor can't have written
		}
		t.Run(where, func(t *testing.T) {
			x := newFixture(t, s, fence.SQLConfig{})
			zombie := x.open(t, s.openClosed(t))
			x.seal(t, token(1))
			if err := x.depositTx(t.Context(), zombie, token(1), 1, 10); err != nil {
				t.Fatal(err)
			}
			paused, wake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ctx := context.Background()
				if where == "before the transaction" {
					close(paused)
					<-wake
				}
				done <- zombie.Tx(ctx, token(1), func(tx *sql.Tx) error {
					if where == "inside the transaction" {
						if err := x.deposit(ctx, tx, 2, 1); err != nil { // holds a row already
							return err
						}
						close(paused)
						<-wake
					}
					_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET balance = 17 WHERE id = 1", x.accounts()))
					return err
				})
			}()
			await(t, paused)
			x.seal(t, token(2)) // is not held up by a transaction that has not passed its guard
			if err := x.depositTx(t.Context(), x.fence, token(2), 1, 5); err != nil {
				t.Error(err)
			}
			close(wake)
			err := await(t, done)
			wantFenced(t, err, token(1), token(2))
			if got := cas.OutcomeOf(err); got != cas.NotApplied {
				t.Errorf("outcome: got %s, want not applied", got)
			}
			x.wantBalance(t, 1, 15)
			x.wantBalance(t, 2, 0)
		})
	}
}

// openClosed is Open, closed at the test's end.
func (s Server) openClosed(t testing.TB) *sql.DB {
	db := s.Open(t)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func await[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("waited in vain")
		panic("unreachable")
	}
}

// beginGuarded returns a transaction that has deposited and passed its guard.
func (x *fixture) beginGuarded(t *testing.T, revision int64, id int) *sql.Tx {
	t.Helper()
	tx, err := x.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.deposit(t.Context(), tx, id, 1); err != nil {
		t.Fatal(err)
	}
	if err := x.fence.Guard(t.Context(), tx, token(revision)); err != nil {
		t.Fatal(err)
	}
	return tx
}

func testSealWaits(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(1))
	tx := x.beginGuarded(t, 1, 1)
	defer tx.Rollback()

	short, cancel := context.WithTimeout(t.Context(), impatience)
	defer cancel()
	if err := x.fence.Seal(short, token(2)); err == nil {
		t.Fatal("Seal returned while a transaction had passed its guard and could still commit")
	}
	sealed := make(chan error, 1)
	go func() { sealed <- x.fence.Seal(t.Context(), token(2)) }()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := await(t, sealed); err != nil {
		t.Fatal(err)
	}
	x.wantBalance(t, 1, 1)
}

func testAbandonedSeal(t *testing.T, s Server) {
	if !s.manyWriters() {
		t.Skip("a Seal that waits has done nothing yet")
	}
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(1))
	tx := x.beginGuarded(t, 1, 1)
	defer tx.Rollback()
	short, cancel := context.WithTimeout(t.Context(), impatience)
	defer cancel()
	if err := x.fence.Seal(short, token(2)); err == nil {
		t.Fatal("Seal did not wait")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	wantFenced(t, x.depositTx(t.Context(), x.fence, token(1), 2, 1), token(1), token(2))
	wantIs(t, x.depositTx(t.Context(), x.fence, token(2), 2, 1), fence.ErrNotSealed)
	_, err := x.fence.Position(t.Context(), token(1), "orders")
	wantFenced(t, err, token(1), token(2))
	x.wantBalance(t, 2, 0)
}

// At every moment some transaction has passed its guard. A seal that waited for a moment without
// one would wait for ever on a database where share locks overtake it.
func testNoStarvation(t *testing.T, s Server) {
	if !s.manyWriters() {
		t.Skip("guards do not overlap")
	}
	const sessions = 16
	x := newFixture(t, s, fence.SQLConfig{Idle: -1})
	x.seal(t, token(1))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg, begun sync.WaitGroup
	begun.Add(sessions)
	for range sessions {
		wg.Go(func() {
			for first := true; ; first = false {
				err := x.holdGuard(ctx, 20)
				if first {
					begun.Done()
				}
				if _, fenced := errors.AsType[*fence.FencedError](err); fenced {
					return
				}
				if err != nil {
					t.Errorf("guard: %v", err)
					return
				}
			}
		})
	}
	begun.Wait()
	start := time.Now()
	if err := x.fence.Seal(ctx, token(2)); err != nil {
		t.Errorf("Seal under %d overlapping guards: %v", sessions, err)
	}
	t.Logf("Seal under %d overlapping guards of 20 ms took %s", sessions, time.Since(start).Round(time.Millisecond))
	wg.Wait()
}

// holdGuard keeps a guard passed for some milliseconds.
func (x *fixture) holdGuard(ctx context.Context, milliseconds int) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := x.fence.Guard(ctx, tx, token(1)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(x.Sleep, milliseconds)); err != nil {
		return err
	}
	return tx.Commit()
}

// testRace lets zombies write while their successor seals. What a reader sees right after the seal
// is all that there will ever be of theirs.
func testRace(t *testing.T, s Server) {
	for _, level := range s.Levels {
		t.Run(level.String(), func(t *testing.T) {
			x := newFixture(t, s, fence.SQLConfig{Tx: sql.TxOptions{Isolation: level}, Idle: -1})
			x.seal(t, token(1))
			const zombies = 3
			rounds := int64(25)
			if testing.Short() {
				rounds = 10
			}
			if !s.manyWriters() {
				rounds = 4 // the seal has to find its turn among writers that never rest
			}
			for round := int64(1); round <= rounds; round++ {
				var wg, begun sync.WaitGroup
				var sealed atomic.Bool
				begun.Add(zombies)
				for z := range zombies {
					wg.Go(func() { x.writeUntilFenced(t, token(round), z+1, begun.Done, &sealed) })
				}
				begun.Wait()
				x.seal(t, token(round+1))
				sealed.Store(true)
				var before [zombies]int
				for z := range zombies {
					before[z] = x.balance(t, z+1)
				}
				wg.Wait()
				for z := range zombies {
					if after := x.balance(t, z+1); after != before[z] {
						t.Fatalf("round %d: balance %d became %d after Seal had returned", round, before[z], after)
					}
				}
			}
		})
	}
}

func (x *fixture) writeUntilFenced(t *testing.T, tok shard.Token, account int, begun func(), sealed *atomic.Bool) {
	for n := 0; ; n++ {
		late := sealed.Load()
		err := x.depositTx(t.Context(), x.fence, tok, account, 1)
		if n == 0 {
			begun()
		}
		_, fenced := errors.AsType[*fence.FencedError](err)
		switch {
		case fenced:
			return
		case err == nil && late:
			t.Error("a write that began after Seal had returned was accepted")
			return
		case err == nil:
		case x.conf.Tx.Isolation == sql.LevelSerializable && cas.OutcomeOf(err) == cas.NotApplied:
			// There the database may refuse any of several transactions, and says to try again.
		default:
			t.Errorf("zombie: got %v, want nil until FencedError", err)
			return
		}
	}
}

// testSnapshots: at the stricter levels a transaction sees the row as it was when it began.
func testSnapshots(t *testing.T, s Server) {
	if !s.manyWriters() {
		t.Skip("a transaction that began before the seal and writes would have held it up")
	}
	for _, level := range s.Levels {
		t.Run(level.String(), func(t *testing.T) {
			x := newFixture(t, s, fence.SQLConfig{Tx: sql.TxOptions{Isolation: level}})
			x.seal(t, token(1))
			err := x.fence.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
				if err := x.deposit(t.Context(), tx, 1, 1); err != nil {
					return err
				}
				var n int // the snapshot has the fence's row too
				if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM "+x.conf.Table).Scan(&n); err != nil {
					return err
				}
				short, cancel := context.WithTimeout(t.Context(), impatience)
				defer cancel()
				if err := x.fence.Seal(short, token(2)); err != nil && level != sql.LevelSerializable {
					t.Errorf("Seal: %v", err) // only there a plain read may lock
				}
				return nil
			})
			// Where the read has locked the row, the seal is only announced yet; that suffices.
			wantFenced(t, err, token(1), token(2))
			x.wantBalance(t, 1, 0)
		})
	}
}

// testFreed: a process that stops inside a transaction holds its rows until the server ends it.
func testFreed(t *testing.T, s Server) {
	if !s.manyWriters() {
		t.Skip("there is no cure")
	}
	x := newFixture(t, s, fence.SQLConfig{Idle: time.Second})
	zombie := x.open(t, s.openClosed(t))
	x.seal(t, token(1))
	paused, wake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- zombie.Tx(context.Background(), token(1), func(tx *sql.Tx) error {
			err := x.deposit(context.Background(), tx, 1, 1)
			close(paused)
			<-wake
			return err
		})
	}()
	await(t, paused)
	x.seal(t, token(2))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := time.Now()
	if err := x.depositTx(ctx, x.fence, token(2), 1, 5); err != nil {
		t.Errorf("the zombie's row was not freed: %v", err)
	}
	t.Logf("a row held by a paused transaction was free after %s", time.Since(start).Round(time.Millisecond))
	close(wake)
	wantFenced(t, await(t, done), token(1), token(2))
	x.wantBalance(t, 1, 5)
}
