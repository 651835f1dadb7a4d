package boundtx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/internal/boundtx"
	"github.com/tenure-go/tenure/internal/dialect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mute is a MySQL that falls silent at one statement, by a driver like go-sql-driver's: what it does under a context
// closes the connection when that ends, and Commit and Rollback have none. What a real server answers is tested in
// internal/integration.
type mute struct {
	at string // in capitals

	mu     sync.Mutex // guards the rest
	silent bool
	closed bool
	sent   []string
	gone   map[string]error // statements that are refused
}

func (m *mute) Connect(context.Context) (driver.Conn, error) { return &muteConn{m}, nil }
func (m *mute) Driver() driver.Driver                        { return nil }

// send returns false if there will be no answer.
func (m *mute) send(stmt string) (answered bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return true, driver.ErrBadConn
	}
	m.sent = append(m.sent, stmt)
	m.silent = m.silent || m.at != "" && strings.HasPrefix(stmt, m.at)
	return !m.silent, m.gone[stmt]
}

type muteConn struct{ *mute }

func (c *muteConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c *muteConn) Close() error                        { return nil }
func (c *muteConn) Begin() (driver.Tx, error)           { return c, nil }
func (c *muteConn) Commit() error                       { return c.unbounded("commit") }
func (c *muteConn) Rollback() error                     { return c.unbounded("rollback") }

func (c *muteConn) unbounded(what string) error {
	answered, err := c.send(what)
	if !answered {
		select {} // synctest fails a test that waits for this
	}
	return err
}

func (c *muteConn) ExecContext(ctx context.Context, stmt string, _ []driver.NamedValue) (driver.Result, error) {
	answered, err := c.send(stmt)
	if answered {
		return driver.RowsAffected(0), err
	}
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil, ctx.Err()
}

func begin(t *testing.T, ctx context.Context, m *mute, d dialect.Dialect) (*sql.Tx, *boundtx.Tie, func()) {
	t.Helper()
	db := sql.OpenDB(m)
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tx, tie, err := boundtx.Begin(ctx, conn, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tx, tie, func() { tie.End(); _ = conn.Close(); _ = db.Close() }
}

// Whichever statement it is at which the server falls silent, neither commit nor rollback outlasts its bound.
func TestSilence(t *testing.T) {
	for _, at := range []string{"RELEASE", "DO 0", "ROLLBACK"} {
		synctest.Test(t, func(t *testing.T) {
			m := &mute{at: at, gone: map[string]error{}}
			if at == "DO 0" { // which is asked whether the connection lives on without the savepoint
				m.gone["RELEASE SAVEPOINT tenure_tx"] = errors.New("none")
			}
			_, tie, done := begin(t, t.Context(), m, dialect.MySQL)
			defer done()
			start := time.Now()
			ended, err := tie.Rollback(nil)
			if took := time.Since(start); ended || err == nil || tie.Clean() || took != boundtx.RollbackTimeout {
				t.Errorf("%s: got ended %t, %v, clean %t after %s, want an error after %s", at, ended, err, tie.Clean(), took, boundtx.RollbackTimeout)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m := &mute{at: "COMMIT"}
		_, tie, done := begin(t, ctx, m, dialect.MySQL)
		defer done()
		start := time.Now()
		sent, err := tie.Commit(ctx)
		if took := time.Since(start); !sent || !errors.Is(err, context.DeadlineExceeded) || tie.Clean() || took != time.Second {
			t.Errorf("commit: got sent %t, %v, clean %t after %s, want it sent, and the context's end", sent, err, tie.Clean(), took)
		}
		if ended, err := tie.Rollback(nil); ended || err != nil || slices.Contains(m.sent, "ROLLBACK") {
			t.Errorf("a commit that was sent is not rolled back: got ended %t, %v, sent %q", ended, err, m.sent)
		}
	})
	synctest.Test(t, func(t *testing.T) { // ctx ends while fn is at work
		ctx, cancel := context.WithCancel(t.Context())
		_, tie, done := begin(t, ctx, &mute{at: "RELEASE"}, dialect.MySQL)
		defer done()
		cancel()
		sent, err := tie.Commit(ctx)
		if sent || !errors.Is(err, context.Canceled) {
			t.Errorf("got sent %t, %v, want the context's end and nothing sent", sent, err)
		}
	})
}

// What has ended without Rollback, and what says that it was not somebody else.
func TestEnded(t *testing.T) {
	none := errors.New("there is none")
	refused := errors.New("refused")
	for _, test := range []struct {
		name  string
		d     dialect.Dialect
		gone  string
		fault error
		end   func(*sql.Tx) error
		why   func(*sql.Tx) error
		want  bool
	}{
		{name: "open", d: dialect.Postgres},
		{name: "open", d: dialect.MySQL},
		{name: "open", d: dialect.SQLite},
		{name: "no block", d: dialect.Postgres, gone: "SAVEPOINT tenure_tx", fault: state("25P01"), want: true},
		{name: "a failed one", d: dialect.Postgres, gone: "SAVEPOINT tenure_tx", fault: state("25P02")},
		{name: "no answer", d: dialect.Postgres, gone: "SAVEPOINT tenure_tx", fault: none},
		{name: "no savepoint", d: dialect.MySQL, gone: "RELEASE SAVEPOINT tenure_tx", fault: none, want: true},
		{name: "a deadlock", d: dialect.MySQL, gone: "RELEASE SAVEPOINT tenure_tx", fault: none, why: func(*sql.Tx) error { return number{1213} }},
		{name: "no transaction", d: dialect.SQLite, gone: "rollback", fault: code(1), want: true},
		{name: "a full disk", d: dialect.SQLite, gone: "rollback", fault: code(1), why: func(*sql.Tx) error { return code(13) }},
		{name: "interrupted", d: dialect.SQLite, gone: "rollback", fault: code(1), why: func(*sql.Tx) error { return context.Canceled }},
		{name: "Commit", d: dialect.Postgres, end: (*sql.Tx).Commit, want: true},
		{name: "a guard", d: dialect.Postgres, end: (*sql.Tx).Rollback, why: func(tx *sql.Tx) error { return &boundtx.GivenUp{Tx: tx, Err: refused} }},
		{name: "a guard of another", d: dialect.Postgres, end: (*sql.Tx).Rollback, want: true, why: func(*sql.Tx) error { return &boundtx.GivenUp{Tx: new(sql.Tx), Err: refused} }},
	} {
		for _, cut := range []bool{false, true} { // its context ends before
			ctx, cancel := context.WithCancel(t.Context())
			tx, tie, done := begin(t, ctx, &mute{gone: map[string]error{test.gone: test.fault}}, test.d)
			if test.end != nil {
				if err := test.end(tx); err != nil {
					t.Error(err)
				}
			}
			var why error
			if test.why != nil {
				why = test.why(tx)
			}
			if cut {
				cancel()
			}
			for range 2 {
				if got, _ := tie.Rollback(why); got != test.want {
					t.Errorf("%s %s, context ended %t: got ended %t, want %t", test.d, test.name, cut, got, test.want)
				}
			}
			cancel()
			done()
		}
	}
}

// The error is that of the context alone, with its cause, if BEGIN did not fail.
func TestBeginUnderAnEndedContext(t *testing.T) {
	cause := errors.New("lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	db := sql.OpenDB(&mute{})
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel(cause)
	_, _, err = boundtx.Begin(ctx, conn, dialect.Postgres, nil)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || strings.Contains(err.Error(), "nil") {
		t.Errorf("got %q, want the context's end and its cause", err)
	}
}

type state string

func (e state) Error() string    { return "state " + string(e) }
func (e state) SQLState() string { return string(e) }

type code int

func (e code) Error() string { return "code" }
func (e code) Code() int     { return int(e) }

type number struct{ Number uint16 }

func (e number) Error() string { return "number" }
