package sqlcas_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas"
)

// Whatever step fails, and however: in the end the operation is applied once, and said to be.
func TestOnceEachStep(t *testing.T) {
	for _, d := range []sqlcas.Dialect{sqlcas.Postgres, sqlcas.MySQL, sqlcas.SQLite} {
		for _, step := range []string{"begin", "INSERT", "SELECT began", "add", "RELEASE", "commit"} {
			for n := 1; n <= 2; n++ {
				for _, done := range []bool{false, true} {
					f := newFake()
					f.fault = at(step, n, fault{err: io.ErrUnexpectedEOF, done: done, dead: true})
					if d == sqlcas.SQLite && step != "begin" && step != "commit" {
						continue // it has no connection to lose
					}
					id := cas.Dated(time.Now(), "op")
					for range 2 {
						err := f.new(t, d, sqlcas.Config{}).Once(t.Context(), id, func(tx *sql.Tx) error { return add(t.Context(), tx, 1) })
						if err != nil {
							t.Errorf("%s, %s %d, done=%t: %v", d, step, n, done, err)
						}
					}
					if f.state.balance != 1 {
						t.Errorf("%s, %s %d, done=%t: applied %d times, want once", d, step, n, done, f.state.balance)
					}
				}
			}
		}
	}
}

// As long as a lost commit is not decided, no error may say that nothing was applied.
func TestOnceUndecidedStaysUncertain(t *testing.T) {
	lost := fault{err: io.ErrUnexpectedEOF, done: true, dead: true}
	for name, then := range map[string]fault{
		"away":    {err: io.EOF, dead: true},
		"refused": {err: stateError("28P01")},
		"denied":  {err: stateError("42501")},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, step := range []string{"begin", "INSERT"} {
				f := newFake()
				down := false
				f.fault = func(s string) fault {
					switch {
					case s == "commit" && !down:
						down = true
						return lost
					case down && len(s) >= len(step) && s[:len(step)] == step:
						return then
					}
					return fault{}
				}
				var took cas.Effort
				db := f.new(t, sqlcas.Postgres, sqlcas.Config{Observe: func(e cas.Effort) { took = e }})
				err := db.Once(t.Context(), "op", func(tx *sql.Tx) error { return add(t.Context(), tx, 1) })
				if !errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain || took.Lost != 1 {
					t.Errorf("%s at %s: got %v (%s), %+v, want ErrUncertain", name, step, err, cas.OutcomeOf(err), took)
				}
				f.fault = nil
				if outcome, err := db.Resolve(t.Context(), "op"); outcome != cas.Applied || err != nil {
					t.Errorf("%s at %s: Resolve: got %s, %v, want applied", name, step, outcome, err)
				}
			}
		})
	}
}

// Once the receipt is held again, the lost commit is decided, and what comes then is about this try.
func TestOnceDecidedThenFails(t *testing.T) {
	f := newFake()
	f.fault = at("commit", 1, fault{err: io.ErrUnexpectedEOF, dead: true}) // it never arrived
	ran, soldOut := 0, errors.New("sold out")
	err := f.new(t, sqlcas.Postgres, sqlcas.Config{}).Once(t.Context(), "op", func(tx *sql.Tx) error {
		if ran++; ran == 2 {
			return soldOut
		}
		return add(t.Context(), tx, 1)
	})
	if !errors.Is(err, soldOut) || cas.OutcomeOf(err) != cas.NotApplied || ran != 2 {
		t.Errorf("got %v (%s) after %d runs, want sold out, not applied, after 2", err, cas.OutcomeOf(err), ran)
	}
}

// A function that commits by itself is not helped by a receipt: half of it may be there.
func TestOnceFunctionCommitsIsUncertain(t *testing.T) {
	ran := 0
	err := newFake().new(t, sqlcas.Postgres, sqlcas.Config{}).Once(t.Context(), "op", func(tx *sql.Tx) error {
		ran++
		return tx.Commit()
	})
	if err == nil || cas.OutcomeOf(err) != cas.Uncertain || ran != 1 {
		t.Errorf("got %v (%s) after %d runs, want an error, uncertain, after 1", err, cas.OutcomeOf(err), ran)
	}
}

func TestOnceRefusesReadOnly(t *testing.T) {
	db := newFake().new(t, sqlcas.Postgres, sqlcas.Config{Tx: sql.TxOptions{ReadOnly: true}})
	err := db.Once(t.Context(), "op", func(*sql.Tx) error { t.Error("it ran"); return nil })
	if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v, want an error, not applied", err)
	}
}

// A receipt that a later version has written is left alone.
func TestOnceUnknownState(t *testing.T) {
	f := newFake()
	f.state.receipts["op"] = "paused"
	db := f.new(t, sqlcas.Postgres, sqlcas.Config{})
	err := db.Once(t.Context(), "op", func(*sql.Tx) error { t.Error("it ran"); return nil })
	if err == nil || cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("got %v (%s), want an error, uncertain", err, cas.OutcomeOf(err))
	}
	if outcome, err := db.Resolve(t.Context(), "op"); outcome != cas.Uncertain || err == nil {
		t.Errorf("Resolve: got %s, %v, want uncertain", outcome, err)
	}
}

// Resolve's own commit may be lost as well. It is asked again, for nothing can be done twice.
func TestResolveLostCommit(t *testing.T) {
	for _, done := range []bool{false, true} {
		f := newFake()
		f.fault = at("commit", 1, fault{err: io.EOF, done: done, dead: true})
		db := f.new(t, sqlcas.Postgres, sqlcas.Config{})
		if outcome, err := db.Resolve(t.Context(), "op"); outcome != cas.NotApplied || err != nil {
			t.Errorf("done=%t: got %s, %v, want not applied", done, outcome, err)
		}
		if f.state.receipts["op"] != "aborted" {
			t.Errorf("receipt: got %q, want aborted", f.state.receipts["op"])
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fault = always("commit", fault{err: io.EOF, dead: true})
		outcome, err := f.new(t, sqlcas.Postgres, sqlcas.Config{}).Resolve(t.Context(), "op")
		if outcome != cas.Uncertain || cas.OutcomeOf(err) != cas.Uncertain {
			t.Errorf("got %s, %v, want uncertain", outcome, err)
		}
	})
}

// An operation from before the horizon is not applied, whatever its receipt once said.
func TestOnceExpired(t *testing.T) {
	f := newFake()
	f.state.horizon = time.Now().Unix()
	db := f.new(t, sqlcas.Postgres, sqlcas.Config{})
	id := cas.Dated(time.Now().Add(-time.Hour), "op")
	err := db.Once(t.Context(), id, func(*sql.Tx) error { t.Error("it ran"); return nil })
	if !errors.Is(err, cas.ErrReceiptExpired) || cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("got %v (%s), want ErrReceiptExpired, uncertain", err, cas.OutcomeOf(err))
	}
	if len(f.state.receipts) != 0 {
		t.Errorf("receipts: got %v, want none", f.state.receipts)
	}
	if err := db.Once(t.Context(), cas.Dated(time.Now().Add(time.Minute), "op"), func(*sql.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
}

func ExampleTable_Update() {
	ctx := context.Background()
	db := sql.OpenDB(newFake()) // a database with one account, of balance 0 at version 1
	defer db.Close()

	accounts, err := sqlcas.NewTable(sqlcas.Postgres, "account", "version", "id")
	fmt.Println(err)

	var balance, version int64
	_ = db.QueryRowContext(ctx, "SELECT balance, version FROM account").Scan(&balance, &version)

	next, err := accounts.Update(ctx, db, sqlcas.Key{1}, version, sqlcas.Set{"balance": balance + 30})
	fmt.Println("version", next, err)

	// Somebody who has read before that, and writes now:
	_, err = accounts.Update(ctx, db, sqlcas.Key{1}, version, sqlcas.Set{"balance": balance + 50})
	fmt.Println(err, "/", cas.OutcomeOf(err))

	_, err = accounts.Update(ctx, db, sqlcas.Key{2}, version, sqlcas.Set{"balance": 50})
	fmt.Println(err)
	// Output:
	// <nil>
	// version 2 <nil>
	// sqlcas: conflict on account [1]: version 1 was seen, and 2 is there / not applied
	// sqlcas: no such row: account [2]
}

// The transaction is refused the first time, because somebody else was faster.
func ExampleDB_Retry() {
	ctx := context.Background()
	fake := newFake()
	fake.fault = at("commit", 1, fault{err: stateError("40001")})
	pool := sql.OpenDB(fake)
	defer pool.Close()

	db, err := sqlcas.New(pool, sqlcas.Postgres, sqlcas.Config{Tx: sql.TxOptions{Isolation: sql.LevelSerializable}})
	fmt.Println(err)
	runs := 0
	err = db.Retry(ctx, func(tx *sql.Tx) error {
		runs++
		_, err := tx.ExecContext(ctx, "add", 100)
		return err
	})
	fmt.Println(err, "after", runs, "runs; balance", fake.state.balance)
	// Output:
	// <nil>
	// <nil> after 2 runs; balance 100
}

// The reply to the first COMMIT is lost, and then the client comes back by itself.
func ExampleDB_Once() {
	ctx := context.Background()
	fake := newFake()
	fake.fault = at("commit", 1, fault{err: io.ErrUnexpectedEOF, done: true, dead: true})
	pool := sql.OpenDB(fake)
	defer pool.Close()

	db, err := sqlcas.New(pool, sqlcas.Postgres, sqlcas.Config{})
	fmt.Println(err)
	for range 2 {
		err = db.Once(ctx, "payment-4711", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "add", 100)
			return err
		})
		fmt.Println(err, "balance", fake.state.balance)
	}
	outcome, err := db.Resolve(ctx, "payment-4711")
	fmt.Println(outcome, err)
	// Output:
	// <nil>
	// <nil> balance 100
	// <nil> balance 100
	// applied <nil>
}
