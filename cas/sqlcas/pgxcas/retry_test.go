package pgxcas_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas"
	"github.com/tenure-go/tenure/cas/sqlcas/pgxcas"
	"github.com/tenure-go/tenure/internal/boundtx"
)

// fakePool is a database that counts, and that fails where it is told to. Its receipts are one.
type fakePool struct {
	pgxcas.Querier // none: a pool is asked for transactions alone
	balance        int
	receipt        bool
	fail           map[string][]fault // by step, one for each time
	steps          []string
}

type fault struct {
	err  error
	done bool // it is done nevertheless
	dead bool // and the connection answers no more
}

func (p *fakePool) step(name string) fault {
	p.steps = append(p.steps, name)
	if len(p.fail[name]) == 0 {
		return fault{}
	}
	f := p.fail[name][0]
	p.fail[name] = p.fail[name][1:]
	return f
}

func (p *fakePool) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error) {
	if f := p.step("begin"); f.err != nil {
		return nil, f.err
	}
	return &fakeTx{pool: p, balance: p.balance, receipt: p.receipt}, nil
}

type fakeTx struct {
	pgx.Tx  // none: what is not here is not used
	pool    *fakePool
	balance int
	receipt bool
	closed  bool
	dead    bool
}

func (x *fakeTx) Exec(_ context.Context, stmt string, _ ...any) (pgconn.CommandTag, error) {
	if x.dead {
		return pgconn.CommandTag{}, io.EOF
	}
	name := "add"
	if strings.HasPrefix(stmt, "INSERT") {
		name = "receipt"
	}
	f := x.pool.step(name)
	x.dead = f.dead
	switch {
	case f.err != nil:
		return pgconn.CommandTag{}, f.err
	case name == "add":
		x.balance++
	case x.receipt:
		return pgconn.NewCommandTag("INSERT 0 0"), nil
	default:
		x.receipt = true
	}
	return pgconn.NewCommandTag("INSERT 0 1"), nil
}

func (x *fakeTx) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return &appliedRow{}, nil
}

// appliedRow is the state of a receipt that is there.
type appliedRow struct {
	pgx.Rows
	read bool
}

func (r *appliedRow) Next() bool          { r.read = !r.read; return r.read }
func (r *appliedRow) Scan(d ...any) error { *d[0].(*string) = "applied"; return nil }
func (r *appliedRow) Err() error          { return nil }
func (r *appliedRow) Close()              {}

func (x *fakeTx) Conn() *pgx.Conn { return nil }

func (x *fakeTx) Commit(context.Context) error {
	if x.closed {
		return pgx.ErrTxClosed
	}
	x.closed = true
	if x.dead {
		return io.EOF
	}
	f := x.pool.step("commit")
	if f.err == nil || f.done {
		x.pool.balance, x.pool.receipt = x.balance, x.receipt
	}
	return f.err
}

func (x *fakeTx) Rollback(context.Context) error {
	if x.closed {
		return pgx.ErrTxClosed
	}
	x.closed = true
	if x.dead {
		return io.EOF
	}
	return x.pool.step("rollback").err
}

func state(code string) error { return &pgconn.PgError{Code: code} }

// unsent is an error of pgx that says that nothing was sent.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }
func (u unsent) Unwrap() error   { return u.error }

func TestRetryEachStep(t *testing.T) {
	const once, again = 1, 2
	for _, test := range []struct {
		step    string
		fault   fault
		outcome cas.Outcome
		ran     int
		balance int
	}{
		{"nothing", fault{}, cas.Applied, once, 1},
		{"begin", fault{err: io.EOF}, cas.Applied, once, 1},
		{"begin", fault{err: state("57P03")}, cas.Applied, once, 1},
		{"begin", fault{err: state("28P01")}, cas.NotApplied, 0, 0},
		{"add", fault{err: state("40001")}, cas.Applied, again, 1},
		{"add", fault{err: state("40P01")}, cas.Applied, again, 1},
		{"add", fault{err: state("23505")}, cas.NotApplied, once, 0},
		{"add", fault{err: io.ErrUnexpectedEOF, dead: true}, cas.Applied, again, 1},
		{"add", fault{err: io.EOF}, cas.NotApplied, once, 0}, // the connection lives: another's EOF
		{"commit", fault{err: state("40001")}, cas.Applied, again, 1},
		{"commit", fault{err: state("23503")}, cas.NotApplied, once, 0},
		{"commit", fault{err: pgx.ErrTxCommitRollback}, cas.NotApplied, once, 0},
		{"commit", fault{err: unsent{errors.New("conn busy")}}, cas.NotApplied, once, 0},
		{"commit", fault{err: unsent{io.EOF}}, cas.Applied, again, 1},
		{"commit", fault{err: state("40003"), done: true}, cas.Uncertain, once, 1},
		{"commit", fault{err: state("08007"), done: true}, cas.Uncertain, once, 1},
		{"commit", fault{err: state("57P01"), done: true}, cas.Uncertain, once, 1},
		{"commit", fault{err: io.ErrUnexpectedEOF, done: true}, cas.Uncertain, once, 1},
		{"commit", fault{err: io.ErrUnexpectedEOF}, cas.Uncertain, once, 0},
	} {
		t.Run(fmt.Sprint(test.step, " ", test.fault.err), func(t *testing.T) {
			p := &fakePool{fail: map[string][]fault{test.step: {test.fault}}}
			db, err := pgxcas.New(p, pgxcas.Config{})
			if err != nil {
				t.Fatal(err)
			}
			ran := 0
			err = db.Retry(t.Context(), func(tx pgx.Tx) error {
				ran++
				_, err := tx.Exec(t.Context(), "add")
				return err
			})
			if got := cas.OutcomeOf(err); got != test.outcome || ran != test.ran || p.balance != test.balance {
				t.Errorf("got %v (%s) after %d runs, balance %d, want %s after %d, balance %d",
					err, got, ran, p.balance, test.outcome, test.ran, test.balance)
			}
			if err != nil && !errors.Is(err, test.fault.err) {
				t.Errorf("got %v, want it to wrap %v", err, test.fault.err)
			}
			if got := errors.Is(err, cas.ErrUncertain); got != (test.outcome == cas.Uncertain) {
				t.Errorf("got %v: is ErrUncertain: %t", err, got)
			}
		})
	}
}

// A lost commit is decided by the receipt.
func TestOnceLostCommit(t *testing.T) {
	for done, want := range map[bool]int{true: 1, false: 2} {
		p := &fakePool{fail: map[string][]fault{"commit": {{err: io.ErrUnexpectedEOF, done: done}}}}
		db, err := pgxcas.New(p, pgxcas.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		err = db.Once(t.Context(), "op", func(tx pgx.Tx) error {
			ran++
			_, err := tx.Exec(t.Context(), "add")
			return err
		})
		if err != nil || ran != want || p.balance != 1 {
			t.Errorf("done=%t: got %v after %d runs, balance %d, want it applied once, after %d", done, err, ran, p.balance, want)
		}
	}
}

// pgx leaves a transaction open when a context ends: it is rolled back, and no commit is sent.
func TestRetryContextEndsInTheFunction(t *testing.T) {
	p := &fakePool{}
	db, err := pgxcas.New(p, pgxcas.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = db.Retry(ctx, func(pgx.Tx) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s), want the context's error, not applied", err, cas.OutcomeOf(err))
	}
	if got := fmt.Sprint(p.steps); got != "[begin rollback]" {
		t.Errorf("steps: got %s, want begin and rollback", got)
	}
}

// A guard that was refused rolls back, and vouches for that transaction. No other error does, whatever it says of itself.
func TestRetryFunctionEndsTheTransaction(t *testing.T) {
	errGuard := errors.New("the guard's")
	for _, test := range []struct {
		end  func(pgx.Tx, context.Context) error
		err  error
		want cas.Outcome
	}{
		{pgx.Tx.Rollback, errGuard, cas.NotApplied},
		{pgx.Tx.Rollback, errors.New("boom"), cas.Uncertain},
		{pgx.Tx.Commit, sqlcas.ErrMissing, cas.Uncertain}, // which says "not applied", of something else
		{pgx.Tx.Commit, state("40001"), cas.Uncertain},
		{pgx.Tx.Commit, nil, cas.Uncertain},
	} {
		p := &fakePool{}
		db, err := pgxcas.New(p, pgxcas.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		err = db.Retry(t.Context(), func(tx pgx.Tx) error {
			ran++
			if err := test.end(tx, t.Context()); err != nil {
				t.Error(err)
			}
			if test.err == errGuard {
				return &boundtx.GivenUp{Tx: tx, Err: cas.ErrContended}
			}
			return test.err
		})
		if got := cas.OutcomeOf(err); err == nil || got != test.want || ran != 1 {
			t.Errorf("function returned %v: got %v (%s) after %d runs, want %s after one", test.err, err, got, ran, test.want)
		}
	}
}

func TestNewChecks(t *testing.T) {
	if db, err := pgxcas.New(nil, pgxcas.Config{}); db != nil || err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("no pool: got %v, %v", db, err)
	}
	if db, err := pgxcas.New(&fakePool{}, pgxcas.Config{Table: "a;b"}); db != nil || err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("table: got %v, %v", db, err)
	}
	readOnly, err := pgxcas.New(&fakePool{}, pgxcas.Config{Tx: pgx.TxOptions{AccessMode: pgx.ReadOnly}})
	if err != nil {
		t.Fatal(err)
	}
	if err := readOnly.Once(t.Context(), "op", func(pgx.Tx) error { return nil }); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("read only: got %v", err)
	}
	if table, err := pgxcas.NewTable("account", "version"); table != nil || err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("no key: got %v, %v", table, err)
	}
}

func ExampleDB_Once() {
	ctx := context.Background()
	// A database that loses the reply to the first COMMIT. In a program: pgxpool.New(ctx, url).
	pool := &fakePool{fail: map[string][]fault{"commit": {{err: io.ErrUnexpectedEOF, done: true}}}}

	db, err := pgxcas.New(pool, pgxcas.Config{})
	fmt.Println(err)
	err = db.Once(ctx, "payment-4711", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE account SET balance = balance + 1 WHERE id = $1", 7)
		return err
	})
	fmt.Println(err, "balance", pool.balance)
	// Output:
	// <nil>
	// <nil> balance 1
}
