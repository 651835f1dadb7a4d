package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

func testGuardFailsTransaction(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(5))
	begin := func() *sql.Tx {
		tx, err := x.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.deposit(t.Context(), tx, 1, 1); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	for revision, check := range map[int64]func(error){
		4: func(err error) { wantFenced(t, err, token(4), token(5)) },
		6: func(err error) { wantIs(t, err, fence.ErrNotSealed) },
	} {
		tx := begin()
		check(x.fence.Guard(t.Context(), tx, token(revision)))
		if err := tx.Commit(); err == nil { // as if the error had been overlooked
			t.Errorf("revision %d: the commit after a failed guard succeeded", revision)
		}
	}
	tx := begin()
	bad := token(5)
	bad.Epoch = 0
	wantIs(t, x.fence.Guard(t.Context(), tx, bad), fence.ErrToken)
	if err := tx.Commit(); err == nil {
		t.Error("the commit after a guard with a bad token succeeded")
	}
	x.wantBalance(t, 1, 0)

	tx = begin()
	if err := x.fence.Guard(t.Context(), tx, token(5)); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	x.wantBalance(t, 1, 1)
}

// testOneConnection: whatever asks the database outside of the transaction must not wait for the
// connection that the transaction has.
func testOneConnection(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := x.fence.Seal(ctx, token(5)); err != nil {
		t.Fatal(err)
	}
	if err := x.depositTx(ctx, x.fence, token(5), 1, 1); err != nil {
		t.Error(err)
	}
	wantFenced(t, x.depositTx(ctx, x.fence, token(4), 1, 1), token(4), token(5))
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFenced(t, x.fence.Guard(ctx, tx, token(4)), token(4), token(5))
	if n := x.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections still in use", n)
	}
}

func testTxApplies(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(5))
	const workers, each = 8, 10
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if err := x.depositTx(t.Context(), x.fence, token(5), 1, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	x.wantBalance(t, 1, workers*each)
}

type businessError struct{ code int }

func (e *businessError) Error() string { return fmt.Sprintf("business error %d", e.code) }

func testFnError(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(5))
	why := &businessError{7}
	err := x.fence.Tx(t.Context(), token(5), func(tx *sql.Tx) error {
		if err := x.deposit(t.Context(), tx, 1, 1); err != nil {
			return err
		}
		return fmt.Errorf("refused: %w", why)
	})
	wantIs(t, err, why)
	if e, ok := errors.AsType[*businessError](err); !ok || e.code != 7 {
		t.Errorf("got %v, want it to be a businessError", err)
	}
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}

	// Even one that is uncertain about something else.
	err = x.fence.Tx(t.Context(), token(5), func(*sql.Tx) error { return cas.ErrUncertain })
	wantIs(t, err, cas.ErrUncertain)
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
	x.wantBalance(t, 1, 0)
}

func testPanic(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.db.SetMaxOpenConns(1) // so that a transaction left open would show
	x.seal(t, token(5))
	got := func() (r any) {
		defer func() { r = recover() }()
		_ = x.fence.Tx(t.Context(), token(5), func(tx *sql.Tx) error {
			if err := x.deposit(t.Context(), tx, 1, 1); err != nil {
				return err
			}
			panic("boom")
		})
		return nil
	}()
	if got != "boom" {
		t.Errorf("recovered %v, want boom", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := x.depositTx(ctx, x.fence, token(5), 1, 2); err != nil {
		t.Fatalf("the connection was not given back: %v", err)
	}
	x.wantBalance(t, 1, 2)
}

func testContext(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(5))
	ctx, cancel := context.WithCancel(t.Context())
	err := x.fence.Tx(ctx, token(5), func(tx *sql.Tx) error {
		err := x.deposit(ctx, tx, 1, 1)
		cancel()
		return err
	})
	wantIs(t, err, context.Canceled)
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
	x.wantBalance(t, 1, 0)

	// fn overlooks that the context has ended. The transaction is rolled back then, not when fn returns.
	ctx, cancel = context.WithTimeout(t.Context(), impatience)
	defer cancel()
	var last error
	err = x.fence.Tx(ctx, token(5), func(tx *sql.Tx) error {
		for deadline := time.Now().Add(patience); last == nil && time.Now().Before(deadline); {
			last = x.deposit(context.Background(), tx, 1, 1)
		}
		return last
	})
	wantIs(t, last, sql.ErrTxDone)
	if got := cas.OutcomeOf(err); err == nil || got != cas.NotApplied {
		t.Errorf("rolled back under fn: got %v (%s), want an error that is not applied", err, got)
	}
	x.wantBalance(t, 1, 0)

	// The context of a request that is gone, without its end.
	if err := x.depositTx(context.WithoutCancel(ctx), x.fence, token(5), 1, 1); err != nil {
		t.Error(err)
	}
	x.wantBalance(t, 1, 1)
}

func testEndedByFn(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(5))
	for _, fnErr := range []error{nil, errors.New("and failed")} {
		for _, cancels := range []bool{false, true} { // if ctx ends as well, fn is still the one who ended it
			ctx, cancel := context.WithCancel(t.Context())
			err := x.fence.Tx(ctx, token(5), func(tx *sql.Tx) error {
				if err := x.deposit(t.Context(), tx, 1, 1); err != nil {
					return err
				}
				if err := tx.Commit(); err != nil {
					return err
				}
				if cancels {
					cancel()
				}
				return fnErr
			})
			cancel()
			if err == nil || cas.OutcomeOf(err) != cas.Uncertain {
				t.Errorf("fn returned %v, context ended: %t: got %v (%s), want an error that is uncertain",
					fnErr, cancels, err, cas.OutcomeOf(err))
			}
		}
	}
	x.wantBalance(t, 1, 4)
}

// testReadThenWrite: on SQLite a transaction that reads first can't become a writer if another
// one came between, and is refused without a wait.
func testReadThenWrite(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(5))
	const workers, each = 4, 10
	lock := "" // the read takes the row, or the writes would be lost for the test's own reasons
	if s.manyWriters() {
		lock = " FOR UPDATE"
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				err := x.fence.Tx(t.Context(), token(5), func(tx *sql.Tx) error {
					var n int
					err := tx.QueryRowContext(t.Context(), "SELECT balance FROM "+x.accounts()+" WHERE id = 1"+lock).Scan(&n)
					if err != nil {
						return err
					}
					_, err = tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s SET balance = %d WHERE id = 1", x.accounts(), n+1))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	x.wantBalance(t, 1, workers*each)
}
