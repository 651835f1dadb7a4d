package sqlcas_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/cas/sqlcas"
)

// fakeDB is a database of one account and a table of receipts, at snapshot isolation: of two transactions
// that have changed something at the same time the second is refused at its commit (40001). It reads
// no SQL but what is sent to it here, and fails where it is told to.
type fakeDB struct {
	mu    sync.Mutex // guards the rest
	state fakeState
	steps []string                // all that was asked for
	fault func(step string) fault // nil: none
}

type fakeState struct {
	balance, version int64
	receipts         map[string]string
	horizon          int64
	changes          int // commits that have changed something
}

// fault is how a step goes wrong. The zero fault is that it does not.
type fault struct {
	err  error
	done bool // it is done nevertheless, and the reply lost
	dead bool // the connection answers no more
	hang bool // there is no reply until the transaction's context ends
}

func newFake() *fakeDB {
	return &fakeDB{state: fakeState{version: 1, receipts: map[string]string{}}}
}

// at fails the n-th step, from 1, that begins with prefix.
func at(prefix string, n int, f fault) func(string) fault {
	seen := 0
	return func(step string) fault {
		if strings.HasPrefix(step, prefix) {
			if seen++; seen == n {
				return f
			}
		}
		return fault{}
	}
}

// always fails each step that begins with prefix.
func always(prefix string, f fault) func(string) fault {
	return func(step string) fault {
		if strings.HasPrefix(step, prefix) {
			return f
		}
		return fault{}
	}
}

func (f *fakeDB) open(t testing.TB) *sql.DB {
	db := sql.OpenDB(f)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (f *fakeDB) new(t testing.TB, d sqlcas.Dialect, c sqlcas.Config) *sqlcas.DB {
	t.Helper()
	db, err := sqlcas.New(f.open(t), d, c)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func (f *fakeDB) count(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.steps {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return &fakeConn{db: f}, nil }
func (f *fakeDB) Driver() driver.Driver                        { return nil }

type fakeConn struct {
	db   *fakeDB
	tx   *fakeState
	base int // state.changes when tx began
	life context.Context
	dead bool
}

// step takes note of a step, does it unless it is to fail, and reports how it went.
func (c *fakeConn) step(name string, do func() error) error {
	c.db.mu.Lock()
	if c.dead {
		c.db.mu.Unlock()
		return driver.ErrBadConn
	}
	c.db.steps = append(c.db.steps, name)
	var f fault
	if c.db.fault != nil {
		f = c.db.fault(name)
	}
	c.dead = f.dead
	var err error
	if (f.err == nil && !f.hang) || f.done {
		err = do()
	}
	life := c.life
	c.db.mu.Unlock()
	if f.hang {
		<-life.Done()
		return life.Err()
	}
	if f.err != nil {
		return f.err
	}
	return err
}

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c *fakeConn) Close() error                        { return nil }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("no context") }

func (c *fakeConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	c.life = ctx
	err := c.step("begin", func() error {
		s := c.db.state
		s.receipts = maps.Clone(s.receipts)
		c.tx, c.base = &s, s.changes
		return nil
	})
	return c, err
}

func (c *fakeConn) Commit() error {
	return c.step("commit", func() error {
		s := c.tx
		c.tx = nil
		if s.changes == c.base {
			return nil
		}
		if c.db.state.changes != c.base {
			return stateError("40001")
		}
		c.db.state = *s
		return nil
	})
}

func (c *fakeConn) Rollback() error {
	return c.step("rollback", func() error { c.tx = nil; return nil })
}

// on is what a statement works on: the transaction, or the database.
func (c *fakeConn) on() *fakeState {
	if c.tx != nil {
		return c.tx
	}
	return &c.db.state
}

func (c *fakeConn) ExecContext(_ context.Context, stmt string, args []driver.NamedValue) (driver.Result, error) {
	if stmt == "COMMIT" { // as text, which obeys a context: on MySQL
		return driver.RowsAffected(0), c.Commit()
	}
	n := int64(0)
	err := c.step(stmt, func() error {
		s := c.on()
		switch {
		case stmt == "ROLLBACK":
			c.tx = nil
		case strings.HasPrefix(stmt, "INSERT"):
			id := args[0].Value.(string)
			if s.receipts[id] == "" {
				s.receipts[id] = args[1].Value.(string)
				n = 1
			}
		case strings.Contains(stmt, "SET state"):
			s.receipts[args[2].Value.(string)] = args[0].Value.(string)
			n = 1
		case strings.HasPrefix(stmt, "add"):
			s.balance += args[0].Value.(int64)
			s.version++
			n = 1
		}
		s.changes += int(n)
		return nil
	})
	return driver.RowsAffected(n), err
}

func (c *fakeConn) QueryContext(_ context.Context, stmt string, args []driver.NamedValue) (driver.Rows, error) {
	rows := &fakeRows{columns: 1}
	err := c.step(stmt, func() error {
		s := c.on()
		switch {
		case strings.HasPrefix(stmt, "UPDATE"): // … SET balance = ?, version … WHERE id = ? AND version = ? RETURNING
			if args[1].Value == int64(1) && args[2].Value == s.version {
				s.balance, s.version = args[0].Value.(int64), s.version+1
				s.changes++
				rows.left = [][]driver.Value{{s.version}}
			}
		case strings.Contains(stmt, `SELECT "version"`):
			if args[0].Value == int64(1) {
				rows.left = [][]driver.Value{{s.version}}
			}
		case strings.Contains(stmt, "SELECT state"):
			if state := s.receipts[args[0].Value.(string)]; state != "" {
				rows.left = [][]driver.Value{{state}}
			}
		case strings.Contains(stmt, "SELECT began"):
			rows.columns, rows.left = 2, [][]driver.Value{{s.horizon, "read committed"}}
		case strings.HasPrefix(stmt, "SELECT balance"):
			rows.columns, rows.left = 2, [][]driver.Value{{s.balance, s.version}}
		default:
			return fmt.Errorf("no such statement: %s", stmt)
		}
		return nil
	})
	return rows, err
}

type fakeRows struct {
	columns int
	left    [][]driver.Value
}

func (r *fakeRows) Columns() []string { return make([]string, r.columns) }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(dest, r.left[0])
	r.left = r.left[1:]
	return nil
}

// Errors as drivers have them.
type stateError string // pgx's, lib/pq's

func (e stateError) Error() string    { return "state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

type mysqlError struct { // go-sql-driver's
	Number   uint16
	SQLState [5]byte
	Message  string
}

func (e *mysqlError) Error() string { return fmt.Sprintf("Error %d: %s", e.Number, e.Message) }

type codeError int // modernc's

func (e codeError) Error() string { return fmt.Sprintf("code %d", int(e)) }
func (e codeError) Code() int     { return int(e) }
