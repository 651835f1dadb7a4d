package sqlidem

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/tenure-go/tenure/cas"
)

// server is a database that does nothing, and tells.
type server struct {
	begin      func(context.Context) error
	prepare    error // of each statement
	committed  int
	rolledBack chan struct{}
}

func (s *server) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *server) Driver() driver.Driver                        { return nil }
func (s *server) Prepare(string) (driver.Stmt, error)          { return nil, s.prepare }
func (s *server) Close() error                                 { return nil }
func (s *server) Begin() (driver.Tx, error)                    { return s, nil }
func (s *server) Commit() error                                { s.committed++; return nil }
func (s *server) Rollback() error                              { close(s.rolledBack); return nil }

func (s *server) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if s.begin != nil {
		return s, s.begin(ctx)
	}
	return s, nil
}

func newStore(t *testing.T, s *server) *Store {
	t.Helper()
	s.rolledBack = make(chan struct{})
	if s.prepare == nil {
		s.prepare = driver.ErrSkip
	}
	db := sql.OpenDB(s)
	t.Cleanup(func() { _ = db.Close() })
	store, err := New(db, Postgres, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// The caller may go when everything has been looked at and COMMIT is next. Then database/sql rolls back, and says of that what it
// says of a function that has ended the transaction. What is there tells them apart: so it is to be settled, by cas.ErrUncertain.
func TestCommitted(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("broken")
	for _, test := range []struct {
		name            string
		ctx             context.Context
		err             error
		settled, blamed bool
	}{
		{"the caller has gone, and it was rolled back", ended, sql.ErrTxDone, true, false},
		{"the caller has gone, and nobody knows", ended, context.Canceled, true, false},
		{"the function has ended it", t.Context(), sql.ErrTxDone, false, true},
		{"the connection broke", t.Context(), broken, true, false},
	} {
		got := newStore(t, &server{}).committed(test.ctx, test.err)
		if !errors.Is(got, test.err) || cas.OutcomeOf(got) != cas.Uncertain ||
			errors.Is(got, cas.ErrUncertain) != test.settled || errors.Is(got, errEnded) != test.blamed {
			t.Errorf("%s: got %v (%s), want it to be settled: %t, the function blamed: %t", test.name, got, cas.OutcomeOf(got), test.settled, test.blamed)
		}
	}
}

// A function that ends its transaction is told apart: no record says what became of that.
func TestRun_FunctionEndsTheTransaction(t *testing.T) {
	for name, end := range map[string]func(*sql.Tx) error{"commit": (*sql.Tx).Commit, "rollback": (*sql.Tx).Rollback} {
		for _, fails := range []bool{false, true} {
			err := newStore(t, &server{}).run(t.Context(), func(tx *sql.Tx) error {
				err := end(tx)
				if fails {
					err = errors.New("boom")
				}
				return err
			})
			if !errors.Is(err, errEnded) || errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain {
				t.Errorf("%s, fails: %t: got %v (%s), want it uncertain, and not to be settled", name, fails, err, cas.OutcomeOf(err))
			}
		}
	}
}

// A BEGIN that hangs ends with its caller.
func TestRun_BeginEndsWithTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{begin: func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	err := newStore(t, s).run(ctx, func(*sql.Tx) error { t.Error("the function ran"); return nil })
	if !errors.Is(err, context.Canceled) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s), want it ended, not applied", err, cas.OutcomeOf(err))
	}
}

// A function that goes on after its caller has gone holds no locks meanwhile, and is not blamed for what it meets.
func TestRun_RollsBackWhenTheCallerGoes(t *testing.T) {
	for _, then := range []error{nil, sql.ErrTxDone} {
		s := &server{}
		store := newStore(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		err := store.run(ctx, func(*sql.Tx) error {
			cancel()
			<-s.rolledBack
			return then
		})
		if err == nil || errors.Is(err, errEnded) || cas.OutcomeOf(err) != cas.NotApplied || s.committed != 0 {
			t.Errorf("the function returned %v: got %v (%s), want it not applied", then, err, cas.OutcomeOf(err))
		}
	}
}
