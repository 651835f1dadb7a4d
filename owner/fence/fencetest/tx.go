package fencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

func testGuardFailsTransaction(t T, x *fixture) {
	x.seal(t, Token(5))
	added := func() Tx {
		tx := x.begin(t)
		if err := tx.Add(t.Context(), 1, 1); err != nil {
			t.Fatalf("Add: %v", err)
		}
		return tx
	}
	for revision, check := range map[int64]func(error){
		4: func(err error) { wantFenced(t, err, Token(4), Token(5)) },
		6: func(err error) { wantIs(t, err, fence.ErrNotSealed) },
	} {
		tx := added()
		check(tx.Guard(t.Context(), Token(revision)))
		if err := tx.Commit(t.Context()); err == nil { // as if the error had been overlooked
			t.Errorf("revision %d: the commit after a failed guard succeeded", revision)
		}
	}
	tx := added()
	bad := Token(5)
	bad.Epoch = 0
	wantIs(t, tx.Guard(t.Context(), bad), fence.ErrToken)
	if err := tx.Commit(t.Context()); err == nil {
		t.Errorf("the commit after a guard with a bad token succeeded")
	}
	x.wantBalance(t, 1, 0)

	tx = added()
	if err := tx.Guard(t.Context(), Token(5)); err != nil {
		t.Errorf("Guard: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Errorf("Commit: %v", err)
	}
	x.wantBalance(t, 1, 1)
}

func testTxApplies(t T, x *fixture) {
	x.seal(t, Token(5))
	const workers, each = 8, 10
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if err := x.add(t, Token(5), 1, 1); err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	x.wantBalance(t, 1, workers*each)
}

// testReadThenWrite: on SQLite a transaction that reads first can't become a writer if another
// one came between, and is refused without a wait.
func testReadThenWrite(t T, x *fixture) {
	x.seal(t, Token(5))
	const workers, each = 4, 10
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				err := x.transactional().Tx(t.Context(), Token(5), func(tx Tx) error {
					before, err := tx.Balance(t.Context(), 1)
					if err != nil {
						return err
					}
					if err := tx.Add(t.Context(), 1, 1); err != nil {
						return err
					}
					after, err := tx.Balance(t.Context(), 1)
					if err == nil && after != before+1 {
						t.Errorf("the balance went from %d to %d by adding 1", before, after)
					}
					return err
				})
				if err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	x.wantBalance(t, 1, workers*each)
}

type businessError struct{ code int }

func (e *businessError) Error() string { return fmt.Sprintf("business error %d", e.code) }

func testFnError(t T, x *fixture) {
	x.seal(t, Token(5))
	why := &businessError{7}
	err := x.transactional().Tx(t.Context(), Token(5), func(tx Tx) error {
		if err := tx.Add(t.Context(), 1, 1); err != nil {
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
	err = x.transactional().Tx(t.Context(), Token(5), func(Tx) error { return cas.ErrUncertain })
	wantIs(t, err, cas.ErrUncertain)
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
	x.wantBalance(t, 1, 0)
}

func testPanic(t T, x *fixture) {
	x.seal(t, Token(5))
	got := func() (r any) {
		defer func() { r = recover() }()
		_ = x.transactional().Tx(t.Context(), Token(5), func(tx Tx) error {
			if err := tx.Add(t.Context(), 1, 1); err != nil {
				return err
			}
			panic("boom")
		})
		return nil
	}()
	if got != "boom" {
		t.Errorf("recovered %v, want boom", got)
	}
	if err := x.add(t, Token(5), 1, 2); err != nil { // on the account that it had locked
		t.Errorf("the transaction was left open: %v", err)
	}
	x.wantBalance(t, 1, 2)
}

func testContext(t T, x *fixture) {
	x.seal(t, Token(5))
	ctx, cancel := context.WithCancel(t.Context())
	err := x.transactional().Tx(ctx, Token(5), func(tx Tx) error {
		err := tx.Add(ctx, 1, 1)
		cancel()
		return err
	})
	wantIs(t, err, context.Canceled)
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
	x.wantBalance(t, 1, 0)

	// The context of a request that is gone, without its end.
	if err := x.fence.Add(context.WithoutCancel(ctx), Token(5), 1, 1); err != nil {
		t.Errorf("%v", err)
	}
	x.wantBalance(t, 1, 1)
}
