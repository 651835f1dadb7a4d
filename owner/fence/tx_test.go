package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

// guarding is a database whose guards pass. afterGuard runs when the guard's answer has been read.
type guarding struct {
	afterGuard func()
	commits    atomic.Int64
	dead       int // so many connections turn out to be dead at BEGIN
}

func (g *guarding) Connect(context.Context) (driver.Conn, error) { return guardingConn{g}, nil }
func (g *guarding) Driver() driver.Driver                        { return nil }

type guardingConn struct{ *guarding }

func (c guardingConn) Prepare(string) (driver.Stmt, error) { return nil, errNowhere }
func (c guardingConn) Close() error                        { return nil }
func (c guardingConn) Rollback() error                     { return nil }
func (c guardingConn) Commit() error                       { c.commits.Add(1); return nil }

func (c guardingConn) Begin() (driver.Tx, error) {
	if c.dead > 0 {
		c.dead--
		return nil, driver.ErrBadConn
	}
	return c, nil
}

func (c guardingConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &guardingRows{guarding: c.guarding}, nil
}

type guardingRows struct {
	*guarding
	read bool
}

func (r *guardingRows) Columns() []string { return []string{"held"} }
func (r *guardingRows) Close() error      { r.afterGuard(); return nil }

func (r *guardingRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	dest[0] = int64(1)
	return nil
}

// A context that ends after the guard and before the commit leaves nothing open.
func TestTxContextEndsBeforeTheCommit(t *testing.T) {
	for range 20 { // it races with database/sql, which rolls back
		ctx, cancel := context.WithCancel(t.Context())
		g := &guarding{afterGuard: cancel}
		db := sql.OpenDB(g)
		f, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{Idle: -1})
		if err != nil {
			t.Fatal(err)
		}
		wantIs(t, f.Tx(ctx, token(1), func(*sql.Tx) error { return nil }), context.Canceled)
		if n := g.commits.Load(); n != 0 {
			t.Errorf("%d commits were sent, want none", n)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A pool may hold connections that the server has closed meanwhile. database/sql replaces them where
// it picks the connection itself, so Tx does where it holds one.
func TestTxReplacesDeadConnections(t *testing.T) {
	for dead, want := range map[int]error{0: nil, 1: nil, 2: nil, 3: driver.ErrBadConn} {
		db := sql.OpenDB(&guarding{afterGuard: func() {}, dead: dead})
		f, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{Idle: -1})
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		err = f.Tx(t.Context(), token(1), func(*sql.Tx) error { ran++; return nil })
		switch {
		case want != nil:
			wantIs(t, err, want)
		case err != nil || ran != 1:
			t.Errorf("%d dead connections: got %v, and fn ran %d times, want once", dead, err, ran)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// fn commits by itself, and then ctx ends: what fn wrote is there, unguarded, and nobody may say otherwise.
func TestTxCommittedByFunctionIsUncertain(t *testing.T) {
	boom := errors.New("boom")
	for _, fnErr := range []error{nil, boom} {
		for _, cancels := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			g := &guarding{afterGuard: func() {}}
			db := sql.OpenDB(g)
			f, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{Idle: -1})
			if err != nil {
				t.Fatal(err)
			}
			err = f.Tx(ctx, token(1), func(tx *sql.Tx) error {
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
				if cancels {
					cancel()
				}
				return fnErr
			})
			cancel()
			if n := g.commits.Load(); err == nil || n != 1 || cas.OutcomeOf(err) != cas.Uncertain {
				t.Errorf("fn returned %v, context ended: %t: got %v (%s) after %d commits, want an error that is uncertain, after 1",
					fnErr, cancels, err, cas.OutcomeOf(err), n)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// What ended the transaction was ctx: then nothing was applied, and the next statement says so.
func TestTxRolledBackByItsContext(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		g := &guarding{afterGuard: func() {}}
		db := sql.OpenDB(g)
		f, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{Idle: -1})
		if err != nil {
			t.Fatal(err)
		}
		wantIs(t, f.Tx(ctx, token(1), func(tx *sql.Tx) error {
			cancel()
			for { // within fn, and whatever context its statements have
				rows, err := tx.QueryContext(context.Background(), "")
				if err != nil {
					return err
				}
				if err := rows.Close(); err != nil {
					return err
				}
			}
		}), sql.ErrTxDone)
		if n := g.commits.Load(); n != 0 {
			t.Errorf("%d commits were sent, want none", n)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// hanging is a database that no longer answers once a transaction has begun. Its transactions end with the
// context that they were begun under, as those of pgx do.
type hanging struct{ *guarding }

func (h hanging) Connect(context.Context) (driver.Conn, error) {
	return &hangingConn{guardingConn: guardingConn{h.guarding}}, nil
}

type hangingConn struct {
	guardingConn
	ctx context.Context
}

func (c *hangingConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	c.ctx = ctx
	return c, nil
}

func (c *hangingConn) Commit() error   { <-c.ctx.Done(); return c.ctx.Err() }
func (c *hangingConn) Rollback() error { <-c.ctx.Done(); return c.ctx.Err() }

// Tx returns some seconds after its context has ended, also if neither commit nor rollback is answered.
func TestTxEndsThoughTheDatabaseHangs(t *testing.T) {
	for name, test := range map[string]struct {
		inFn bool // ctx ends there, else during the commit
		want cas.Outcome
		took time.Duration // after ctx's end, at most
	}{
		"rollback": {true, cas.NotApplied, 5 * time.Second},
		"commit":   {false, cas.Uncertain, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			db := sql.OpenDB(hanging{&guarding{afterGuard: func() {}}})
			f, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{Idle: -1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			err = f.Tx(ctx, token(1), func(*sql.Tx) error {
				if test.inFn {
					<-ctx.Done()
				}
				return ctx.Err()
			})
			if !errors.Is(err, context.DeadlineExceeded) || cas.OutcomeOf(err) != test.want {
				t.Errorf("%s: got %v (%s), want the context's error, %s", name, err, cas.OutcomeOf(err), test.want)
			}
			if took := time.Since(start) - time.Second; took > test.took {
				t.Errorf("%s: Tx took %s longer than its context, want at most %s", name, took, test.took)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
