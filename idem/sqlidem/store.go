package sqlidem

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
)

// Dialect is a kind of database; the same type as fence.Dialect.
type Dialect = dialect.Dialect

const (
	Postgres = dialect.Postgres
	MySQL    = dialect.MySQL // and MariaDB
	SQLite   = dialect.SQLite
)

// Config configures a Store. The zero value is a good one.
type Config struct {
	// Table is the table's name: [a-z_][a-z0-9_]*, at most 48 characters, with or without a schema
	// before it. Defaults to "tenure_idem".
	Table string

	// Fence, if set, guards every StepTx and DoTx with the operation's token, in the same commit; an
	// operation without a token is refused. It must be of the same database. Its SQLConfig.Tx counts
	// then, and not the one here.
	Fence *fence.SQL

	// Tx is how the transactions of StepTx and DoTx begin. Read-only is refused. Defaults to the driver's.
	Tx sql.TxOptions
}

// Store keeps operations in one table. Make it with New; safe for concurrent use.
//
// Connect to the primary. MySQL and MariaDB: InnoDB, one primary; a function given to StepTx or DoTx must
// not use what commits implicitly, DDL above all. SQLite: set a busy timeout.
type Store struct {
	db   *sql.DB
	d    Dialect
	c    Config
	stmt dialect.Idem
}

var _ idem.Store = (*Store)(nil)

// New checks its arguments, all faults joined, and does no I/O. The caller keeps db, and closes it after
// the last use of the Store. The Outcome of its error is NotApplied.
func New(db *sql.DB, d Dialect, c Config) (*Store, error) {
	var errs []error
	if db == nil {
		errs = append(errs, refused("sqlidem: New: db is nil"))
	}
	if err := d.Check(); err != nil {
		errs = append(errs, refused("sqlidem: dialect: %v", err))
	}
	if c.Table == "" {
		c.Table = "tenure_idem"
	}
	if err := dialect.CheckName(c.Table); err != nil {
		errs = append(errs, refused("sqlidem: Config.Table: %v", err))
	}
	if c.Tx.ReadOnly {
		errs = append(errs, refused("sqlidem: Config.Tx.ReadOnly: a transaction that records a step writes"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Store{db: db, d: d, c: c, stmt: dialect.NewIdem(d, c.Table)}, nil
}

// querier is *sql.DB, *sql.Conn or *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// stored is a row as it is read.
type stored struct {
	idem.Record
	length    time.Duration // of the attempt
	forgotten bool
}

// scan reads the columns of dialect.Idem.Get, after those of more.
func scan(r *sql.Row, more ...any) (stored, error) {
	var s stored
	var head string
	var left, length int64
	var replayable, forgotten int
	err := r.Scan(append(more, &s.Rev, &head, &s.Body, &left, &length, &replayable, &forgotten)...)
	if err != nil {
		return stored{}, err
	}
	s.Head = []byte(head)
	s.Attempt, s.length = time.Duration(left)*time.Millisecond, time.Duration(length)*time.Millisecond
	s.Replayable, s.forgotten = replayable == 1, forgotten == 1
	return s, nil
}

// look reads id's row, the zero one if there is none.
func (s *Store) look(ctx context.Context, q querier, id string) (stored, error) {
	row, err := scan(q.QueryRowContext(ctx, s.stmt.Get, id))
	if errors.Is(err, sql.ErrNoRows) {
		return stored{}, nil
	}
	return row, err
}

// Get is idem.Store.
func (s *Store) Get(ctx context.Context, id string) (idem.Record, error) {
	row, err := s.look(ctx, s.db, id)
	if err != nil {
		return idem.Record{}, notApplied("reading a record"+s.hint(err), err)
	}
	return s.present(ctx, id, row), nil
}

// present is the record that a row stands for. One that is forgotten is none.
func (s *Store) present(ctx context.Context, id string, row stored) idem.Record {
	if row.forgotten {
		return idem.Record{}
	}
	if row.Attempt > row.length {
		// Nobody writes an end so far off: the database's clock was set back. If the holder lives it puts
		// that right when it extends the attempt; if not, this bounds how long others are kept out.
		_, _ = s.db.ExecContext(ctx, s.stmt.Heal, id, row.Rev) // if it fails, the next who looks does it
		row.Attempt = row.length
	}
	return row.Record
}

// conflict reads what is there, once a write was refused.
func (s *Store) conflict(ctx context.Context, id string) error {
	r, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	return &idem.ConflictError{Current: r}
}

// revision is drawn, so that none comes back.
func revision() int64 { return 1 + rand.Int64N(1<<62) }

func (s *Store) args(id string, rev int64, p idem.Put) []any {
	var body any // a nil []byte is not NULL to every driver
	if p.Body != nil {
		body = p.Body
	}
	return dialect.IdemArgs(rev, string(p.Head), body, millis(p.Attempt), millis(p.Replay), millis(p.Forget), id)
}

// millis rounds up, so that what was asked for does not become nothing.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Swap is idem.Store.
func (s *Store) Swap(ctx context.Context, id string, rev int64, p idem.Put) (int64, error) {
	if ctx.Err() != nil {
		return 0, notApplied("not sent", context.Cause(ctx))
	}
	next := revision()
	args := s.args(id, next, p)
	if rev == 0 {
		return s.insert(ctx, id, next, args)
	}
	n, err := s.write(ctx, s.stmt.Update, append(args, rev)...)
	return s.swapped(ctx, id, next, n, err)
}

func (s *Store) swapped(ctx context.Context, id string, next, n int64, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, s.conflict(ctx, id)
	}
	return next, nil
}

// insert is Swap over nothing.
func (s *Store) insert(ctx context.Context, id string, next int64, args []any) (int64, error) {
	row, won, err := s.claim(ctx, id, args)
	if err != nil {
		return 0, err
	}
	if won {
		return next, nil
	}
	if row.forgotten {
		n, err := s.write(ctx, s.stmt.Revive, append(args, row.Rev)...)
		return s.swapped(ctx, id, next, n, err)
	}
	if row.Rev == 0 { // inserted by another since the statement began
		return 0, s.conflict(ctx, id)
	}
	return 0, &idem.ConflictError{Current: s.present(ctx, id, row)}
}

// claim inserts the row, or returns the one that is there.
func (s *Store) claim(ctx context.Context, id string, args []any) (row stored, won bool, err error) {
	if s.d == Postgres {
		var one int
		row, err := scan(s.db.QueryRowContext(ctx, s.stmt.Claim, args...), &one)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return stored{}, false, nil
		case err != nil:
			return stored{}, false, s.written(ctx, err)
		}
		return row, one == 1, nil
	}
	// Elsewhere an insert that is refused leaves locks or errors behind, so this looks first.
	row, err = s.look(ctx, s.db, id)
	if err != nil {
		return stored{}, false, notApplied("reading a record"+s.hint(err), err)
	}
	if row.Rev != 0 {
		return row, false, nil
	}
	_, err = s.write(ctx, s.stmt.Insert, args...)
	if err != nil && s.d.FaultOf(err) == dialect.Duplicate {
		return stored{}, false, nil
	}
	return stored{}, err == nil, err
}

// Extend is idem.Store.
func (s *Store) Extend(ctx context.Context, id string, rev int64, attempt time.Duration) error {
	if ctx.Err() != nil {
		return notApplied("not sent", context.Cause(ctx))
	}
	ms := millis(attempt)
	n, err := s.write(ctx, s.stmt.Extend, ms, ms, id, rev)
	if err != nil || n > 0 {
		return err
	}
	err = s.conflict(ctx, id)
	if conflict, ok := err.(*idem.ConflictError); ok && conflict.Current.Rev == rev {
		return nil // MySQL counts a row as changed only if something in it has
	}
	return err
}

// write runs one statement and commits it, and returns how many rows it has changed.
func (s *Store) write(ctx context.Context, stmt string, args ...any) (int64, error) {
	if s.d != MySQL {
		res, err := s.db.ExecContext(ctx, stmt, args...)
		if err != nil {
			return 0, s.written(ctx, err)
		}
		return res.RowsAffected()
	}
	// A session may have autocommit turned off.
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, notApplied("begin", err)
	}
	defer tx.Rollback() // after Commit it does nothing
	res, err := tx.ExecContext(ctx, stmt, args...)
	if err != nil {
		return 0, notApplied("writing a record"+s.hint(err), err) // it is rolled back, also if the connection is gone
	}
	n, err := res.RowsAffected()
	if err != nil || n == 0 {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, s.written(ctx, err)
	}
	return n, nil
}

// String is for logs.
func (s *Store) String() string { return fmt.Sprintf("sqlidem(%s, %s)", s.d, s.c.Table) }
