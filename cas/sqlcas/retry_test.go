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
	"github.com/tenure-go/tenure/internal/boundtx"
)

func add(ctx context.Context, tx *sql.Tx, n int64) error {
	_, err := tx.ExecContext(ctx, "add", n)
	return err
}

// Where it fails, and with what, decides whether it is run again, and what is said of the outcome.
func TestRetryEachStep(t *testing.T) {
	const once, again = 1, 2
	for _, test := range []struct {
		d       sqlcas.Dialect
		step    string
		fault   fault
		outcome cas.Outcome // of the call
		ran     int
		balance int64
	}{
		{sqlcas.Postgres, "nothing", fault{}, cas.Applied, once, 1},

		{sqlcas.Postgres, "add", fault{err: stateError("40001")}, cas.Applied, again, 1},
		{sqlcas.Postgres, "add", fault{err: stateError("40P01")}, cas.Applied, again, 1},
		{sqlcas.Postgres, "add", fault{err: fmt.Errorf("wrapped: %w", stateError("40001"))}, cas.Applied, again, 1},
		{sqlcas.Postgres, "add", fault{err: stateError("23505")}, cas.NotApplied, once, 0},
		{sqlcas.Postgres, "add", fault{err: stateError("40003")}, cas.NotApplied, once, 0}, // no commit was sent
		{sqlcas.Postgres, "add", fault{err: io.ErrUnexpectedEOF, dead: true}, cas.Applied, again, 1},
		{sqlcas.Postgres, "add", fault{err: io.ErrUnexpectedEOF, done: true, dead: true}, cas.Applied, again, 1},
		{sqlcas.Postgres, "add", fault{err: io.EOF}, cas.NotApplied, once, 0}, // the connection lives: another's EOF
		{sqlcas.MySQL, "add", fault{err: &mysqlError{Number: 1213}}, cas.Applied, again, 1},
		{sqlcas.MySQL, "add", fault{err: &mysqlError{Number: 1205}}, cas.Applied, again, 1},
		{sqlcas.MySQL, "add", fault{err: &mysqlError{Number: 1020}}, cas.Applied, again, 1},
		{sqlcas.MySQL, "add", fault{err: &mysqlError{Number: 1062}}, cas.NotApplied, once, 0},
		{sqlcas.SQLite, "add", fault{err: codeError(5)}, cas.Applied, again, 1},
		{sqlcas.SQLite, "add", fault{err: codeError(5 | 2<<8)}, cas.Applied, again, 1},
		{sqlcas.SQLite, "add", fault{err: codeError(6)}, cas.Applied, again, 1},
		{sqlcas.SQLite, "add", fault{err: codeError(19)}, cas.NotApplied, once, 0},

		{sqlcas.Postgres, "begin", fault{err: io.EOF}, cas.Applied, once, 1},
		{sqlcas.Postgres, "begin", fault{err: stateError("57P03")}, cas.Applied, once, 1},
		{sqlcas.Postgres, "begin", fault{err: stateError("40001")}, cas.Applied, once, 1},
		{sqlcas.Postgres, "begin", fault{err: stateError("28P01")}, cas.NotApplied, 0, 0}, // wrong password
		{sqlcas.SQLite, "begin", fault{err: codeError(5)}, cas.Applied, once, 1},
		{sqlcas.MySQL, "SAVEPOINT", fault{err: io.EOF, dead: true}, cas.Applied, once, 1},
		{sqlcas.MySQL, "SET @tenure", fault{err: io.EOF, dead: true}, cas.Applied, once, 1},
		{sqlcas.MySQL, "RELEASE", fault{err: io.EOF, dead: true}, cas.Applied, again, 1},
		{sqlcas.MySQL, "RELEASE", fault{err: &mysqlError{Number: 1305}}, cas.Uncertain, once, 0}, // gone: see whole

		{sqlcas.Postgres, "commit", fault{err: stateError("40001")}, cas.Applied, again, 1},
		{sqlcas.Postgres, "commit", fault{err: stateError("40P01")}, cas.Applied, again, 1},
		{sqlcas.Postgres, "commit", fault{err: stateError("23503")}, cas.NotApplied, once, 0},
		{sqlcas.Postgres, "commit", fault{err: stateError("40003"), done: true}, cas.Uncertain, once, 1},
		{sqlcas.Postgres, "commit", fault{err: stateError("08007"), done: true}, cas.Uncertain, once, 1},
		{sqlcas.Postgres, "commit", fault{err: stateError("57P01"), done: true}, cas.Uncertain, once, 1},
		{sqlcas.Postgres, "commit", fault{err: io.ErrUnexpectedEOF, done: true, dead: true}, cas.Uncertain, once, 1},
		{sqlcas.Postgres, "commit", fault{err: io.ErrUnexpectedEOF, dead: true}, cas.Uncertain, once, 0},
		{sqlcas.Postgres, "commit", fault{err: errors.New("of an unknown kind"), done: true, dead: true}, cas.Uncertain, once, 1},
		{sqlcas.Postgres, "commit", fault{err: errors.New("a commit came to be a rollback")}, cas.NotApplied, once, 0},
		{sqlcas.MySQL, "commit", fault{err: io.EOF, done: true, dead: true}, cas.Uncertain, once, 1},
		{sqlcas.MySQL, "commit", fault{err: &mysqlError{Number: 1180}, done: true}, cas.Uncertain, once, 1},
		{sqlcas.MySQL, "commit", fault{err: &mysqlError{Number: 1213}}, cas.Applied, again, 1},
		{sqlcas.SQLite, "commit", fault{err: codeError(5)}, cas.Applied, again, 1},
		{sqlcas.SQLite, "commit", fault{err: codeError(10), done: true}, cas.Uncertain, once, 1}, // I/O error
	} {
		t.Run(fmt.Sprint(test.d, " ", test.step, " ", test.fault.err), func(t *testing.T) {
			f := newFake()
			f.fault = at(test.step, 1, test.fault)
			ran := 0
			err := f.new(t, test.d, sqlcas.Config{}).Retry(t.Context(), func(tx *sql.Tx) error {
				ran++
				return add(t.Context(), tx, 1)
			})
			if got := cas.OutcomeOf(err); got != test.outcome || ran != test.ran {
				t.Errorf("got %v (%s) after %d runs, want %s after %d", err, got, ran, test.outcome, test.ran)
			}
			if test.step == "commit" && test.outcome == cas.Uncertain && !errors.Is(err, cas.ErrUncertain) {
				t.Errorf("got %v, want ErrUncertain", err)
			}
			if err != nil && !errors.Is(err, test.fault.err) {
				t.Errorf("got %v, want it to wrap %v", err, test.fault.err)
			}
			if f.state.balance != test.balance {
				t.Errorf("balance: got %d, want %d", f.state.balance, test.balance)
			}
		})
	}
}

// Tries are bounded, and so are the waits between them; no try is made when time is up.
func TestRetryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fault = always("add", fault{err: stateError("40001")})
		var took cas.Effort
		db := f.new(t, sqlcas.Postgres, sqlcas.Config{Tries: 20, Observe: func(e cas.Effort) { took = e }})
		start := time.Now()
		err := db.Retry(t.Context(), func(tx *sql.Tx) error { return add(t.Context(), tx, 1) })
		if !errors.Is(err, cas.ErrContended) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v (%s), want ErrContended, not applied", err, cas.OutcomeOf(err))
		}
		if took.Tries != 20 || took.Conflicts != 20 || took.Outcome != cas.NotApplied || took.Took != time.Since(start) {
			t.Errorf("effort: got %+v", took)
		}
		// 2, 4, … 64 ms, and 64 for each after that.
		if least, most := 50*time.Millisecond, 1100*time.Millisecond; took.Took < least || took.Took > most {
			t.Errorf("waited %s, want %s to %s", took.Took, least, most)
		}

		f.fault = always("begin", fault{err: stateError("57P03")})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err = f.new(t, sqlcas.Postgres, sqlcas.Config{Tries: 1000}).Retry(ctx, func(*sql.Tx) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v (%s), want the context's error, not applied", err, cas.OutcomeOf(err))
		}
		if late := time.Since(start) - took.Took - 300*time.Millisecond; late != 0 {
			t.Errorf("it returned %s after ctx ended", late)
		}
	})
}

// Those who met once shall not meet again: their waits differ.
func TestRetryWaitsAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := make(map[time.Duration]bool)
		for range 8 {
			f := newFake()
			f.fault = at("add", 1, fault{err: stateError("40001")})
			start := time.Now()
			if err := f.new(t, sqlcas.Postgres, sqlcas.Config{}).Retry(t.Context(), func(tx *sql.Tx) error { return add(t.Context(), tx, 1) }); err != nil {
				t.Error(err)
			}
			waits[time.Since(start)] = true
		}
		if len(waits) < 4 {
			t.Errorf("8 calls waited for %d different times", len(waits))
		}
	})
}

// A commit that nobody answers ends with its context, and its outcome is unknown.
func TestRetryCommitThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fault = always("commit", fault{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := f.new(t, sqlcas.Postgres, sqlcas.Config{}).Retry(ctx, func(tx *sql.Tx) error { return add(ctx, tx, 1) })
		if !errors.Is(err, cas.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) || cas.OutcomeOf(err) != cas.Uncertain {
			t.Errorf("got %v (%s), want ErrUncertain, for time ran out", err, cas.OutcomeOf(err))
		}
	})
}

// The rollback too, and then nothing was applied.
func TestRetryRollbackThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fault = always("rollback", fault{hang: true})
		boom := errors.New("boom")
		start := time.Now()
		err := f.new(t, sqlcas.Postgres, sqlcas.Config{}).Retry(t.Context(), func(*sql.Tx) error { return boom })
		if !errors.Is(err, boom) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v (%s), want boom, not applied", err, cas.OutcomeOf(err))
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("it took %s, want 5s", took)
		}
	})
}

// What ctx has rolled back was not applied, and no commit is sent.
func TestRetryContextEndsInTheFunction(t *testing.T) {
	for range 20 { // it races with the rollback
		f := newFake()
		ctx, cancel := context.WithCancel(t.Context())
		err := f.new(t, sqlcas.Postgres, sqlcas.Config{}).Retry(ctx, func(tx *sql.Tx) error {
			err := add(ctx, tx, 1)
			cancel()
			return err
		})
		if !errors.Is(err, context.Canceled) || cas.OutcomeOf(err) != cas.NotApplied || f.count("commit") != 0 {
			t.Errorf("got %v (%s) after %d commits, want the context's error, not applied, after none", err, cas.OutcomeOf(err), f.count("commit"))
		}
	}
}

func TestRetryContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newFake().new(t, sqlcas.Postgres, sqlcas.Config{}).Retry(ctx, func(*sql.Tx) error { t.Error("it ran"); return nil })
	if !errors.Is(err, context.Canceled) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s), want the context's error, not applied", err, cas.OutcomeOf(err))
	}
}

// A guard that was refused rolls back, and vouches for that transaction. No other error does, whatever it says of itself.
func TestRetryFunctionEndsTheTransaction(t *testing.T) {
	guard := func(tx *sql.Tx, err error) error {
		return fmt.Errorf("guard: %w", &boundtx.GivenUp{Tx: tx, Err: err})
	}
	elsewhere := func(*sql.Tx, error) error { return guard(new(sql.Tx), cas.ErrContended) }
	itself := func(_ *sql.Tx, err error) error { return err }
	for _, test := range []struct {
		end  func(*sql.Tx) error
		says func(*sql.Tx, error) error
		err  error
		want cas.Outcome
		ran  int
	}{
		{(*sql.Tx).Rollback, guard, cas.ErrContended, cas.NotApplied, 1},
		{(*sql.Tx).Rollback, guard, fmt.Errorf("%w: %w", cas.ErrContended, stateError("40001")), cas.Applied, 2},
		{(*sql.Tx).Commit, elsewhere, nil, cas.Uncertain, 1},
		{(*sql.Tx).Commit, itself, sqlcas.ErrMissing, cas.Uncertain, 1},
		{(*sql.Tx).Rollback, itself, errors.New("boom"), cas.Uncertain, 1},
		{(*sql.Tx).Commit, itself, errors.New("boom"), cas.Uncertain, 1},
		{(*sql.Tx).Commit, itself, stateError("40001"), cas.Uncertain, 1},
		{(*sql.Tx).Commit, itself, nil, cas.Uncertain, 1},
		{(*sql.Tx).Rollback, itself, nil, cas.Uncertain, 1},
	} {
		for _, d := range []sqlcas.Dialect{sqlcas.Postgres, sqlcas.MySQL} {
			ran := 0
			err := newFake().new(t, d, sqlcas.Config{}).Retry(t.Context(), func(tx *sql.Tx) error {
				ran++
				if ran > 1 {
					return nil
				}
				if err := test.end(tx); err != nil {
					t.Error(err)
				}
				return test.says(tx, test.err)
			})
			if d == sqlcas.MySQL && test.want == cas.Applied {
				continue // the state is Postgres's
			}
			if got := cas.OutcomeOf(err); got != test.want || ran != test.ran {
				t.Errorf("%s: function returned %v: got %v (%s) after %d runs, want %s after %d", d, test.err, err, got, ran, test.want, test.ran)
			}
		}
	}
}

func TestRetryPanicRollsBack(t *testing.T) {
	f := newFake()
	db := f.new(t, sqlcas.MySQL, sqlcas.Config{})
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = db.Retry(t.Context(), func(tx *sql.Tx) error {
			_ = add(t.Context(), tx, 1)
			panic("boom")
		})
	}()
	if f.count("rollback") != 1 || f.count("commit") != 0 || f.count("SET autocommit = @tenure") != 1 {
		t.Errorf("steps: %q", f.steps)
	}
}

// SQLite leaves a transaction open whose COMMIT it has refused, and database/sql takes it for ended.
func TestRetrySQLiteRefusedCommitIsRolledBack(t *testing.T) {
	f := newFake()
	f.fault = always("commit", fault{err: codeError(5)})
	db := f.new(t, sqlcas.SQLite, sqlcas.Config{Tries: 1})
	if err := db.Retry(t.Context(), func(*sql.Tx) error { return nil }); cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s), want not applied", err, cas.OutcomeOf(err))
	}
	if f.count("ROLLBACK") != 1 {
		t.Errorf("steps: got %q, want a ROLLBACK behind the commit", f.steps)
	}
}

func TestRetryTransient(t *testing.T) {
	odd := errors.New("odd")
	f := newFake()
	f.fault = at("add", 1, fault{err: odd})
	db := f.new(t, sqlcas.Postgres, sqlcas.Config{Transient: func(err error) bool { return errors.Is(err, odd) }})
	if err := db.Retry(t.Context(), func(tx *sql.Tx) error { return add(t.Context(), tx, 1) }); err != nil {
		t.Error(err)
	}
	// It has no say where nothing is known.
	f.fault = at("commit", 1, fault{err: fmt.Errorf("%w: %w", odd, io.EOF), done: true, dead: true})
	err := db.Retry(t.Context(), func(tx *sql.Tx) error { return add(t.Context(), tx, 1) })
	if !errors.Is(err, cas.ErrUncertain) || f.state.balance != 2 {
		t.Errorf("got %v and balance %d, want ErrUncertain and 2", err, f.state.balance)
	}
}

func TestNewChecks(t *testing.T) {
	db := newFake().open(t)
	for name, make := range map[string]func() (*sqlcas.DB, error){
		"no db":      func() (*sqlcas.DB, error) { return sqlcas.New(nil, sqlcas.Postgres, sqlcas.Config{}) },
		"no dialect": func() (*sqlcas.DB, error) { return sqlcas.New(db, 0, sqlcas.Config{}) },
		"table":      func() (*sqlcas.DB, error) { return sqlcas.New(db, sqlcas.MySQL, sqlcas.Config{Table: "a;b"}) },
		"level": func() (*sqlcas.DB, error) {
			return sqlcas.New(db, sqlcas.MySQL, sqlcas.Config{Tx: sql.TxOptions{Isolation: 99}})
		},
	} {
		if got, err := make(); got != nil || err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: got %v, %v (%s), want an error, not applied", name, got, err, cas.OutcomeOf(err))
		}
	}
}
