package pgxidem

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
)

// Config configures a Store. The zero value is a good one.
type Config struct {
	// Table is the table's name: [a-z_][a-z0-9_]*, at most 48 characters, with or without a schema
	// before it. Defaults to "tenure_idem", as in sqlidem.
	Table string

	// Fence, if set, guards every StepTx and DoTx with the operation's token, in the same commit; an
	// operation without a token is refused. It must be of the same database. Its Config.Tx counts
	// then, and not the one here.
	Fence *pgxfence.Fence

	// Tx is how the transactions of StepTx and DoTx begin: its isolation level. Read-only is refused,
	// and so are queries of one's own. Defaults to what the server says.
	Tx pgx.TxOptions
}

// Store keeps operations in one table. Make it with New; safe for concurrent use. Connect to the
// primary; a pooler may pool transactions.
type Store struct {
	pool *pgxpool.Pool
	c    Config
	stmt dialect.Idem
}

var _ idem.Store = (*Store)(nil)

// New checks its arguments, all faults joined, and does no I/O. The caller keeps pool, and closes it
// after the last use of the Store. The Outcome of its error is NotApplied.
func New(pool *pgxpool.Pool, c Config) (*Store, error) {
	var errs []error
	if pool == nil {
		errs = append(errs, refused("pgxidem: New: pool is nil"))
	}
	if c.Table == "" {
		c.Table = "tenure_idem"
	}
	if err := dialect.CheckName(c.Table); err != nil {
		errs = append(errs, refused("pgxidem: Config.Table: %v", err))
	}
	if c.Tx.AccessMode == pgx.ReadOnly {
		errs = append(errs, refused("pgxidem: Config.Tx.AccessMode: a transaction that records a step writes"))
	}
	if c.Tx.BeginQuery != "" || c.Tx.CommitQuery != "" {
		errs = append(errs, refused("pgxidem: Config.Tx: a BeginQuery or CommitQuery would come in the way of the record; leave them empty"))
	}
	if !isLevel(c.Tx.IsoLevel) {
		errs = append(errs, refused("pgxidem: Config.Tx.IsoLevel: %q is not a level of pgx", c.Tx.IsoLevel))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Store{pool: pool, c: c, stmt: dialect.NewIdem(dialect.Postgres, c.Table)}, nil
}

func isLevel(l pgx.TxIsoLevel) bool {
	switch l {
	case "", pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
		return true
	}
	return false
}

// stored is a row as it is read.
type stored struct {
	idem.Record
	length    time.Duration // of the attempt
	forgotten bool
}

// scan reads the columns of dialect.Idem.Get, after those of more.
func scan(r pgx.Row, more ...any) (stored, error) {
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
func (s *Store) look(ctx context.Context, id string) (stored, error) {
	row, err := scan(s.pool.QueryRow(ctx, s.stmt.Get, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, notApplied("reading a record", err)
	}
	return row, nil
}

// Get is idem.Store.
func (s *Store) Get(ctx context.Context, id string) (idem.Record, error) {
	row, err := s.look(ctx, id)
	if err != nil {
		return idem.Record{}, err
	}
	return s.present(ctx, id, row), nil
}

// present is the record that a row stands for. One that is forgotten is none. An attempt that ends further
// off than it is long was written before the database's clock was set back; see sqlidem.
func (s *Store) present(ctx context.Context, id string, row stored) idem.Record {
	if row.forgotten {
		return idem.Record{}
	}
	if row.Attempt > row.length {
		_, _ = s.pool.Exec(ctx, s.stmt.Heal, id, row.Rev) // if it fails, the next who looks does it
		row.Attempt = row.length
	}
	return row.Record
}

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
	return dialect.IdemArgs(rev, string(p.Head), p.Body, millis(p.Attempt), millis(p.Replay), millis(p.Forget), id)
}

// millis rounds up, so that what was asked for does not become nothing.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Swap is idem.Store.
func (s *Store) Swap(ctx context.Context, id string, rev int64, p idem.Put) (int64, error) {
	const op = "writing a record"
	if ctx.Err() != nil {
		return 0, notApplied(op, context.Cause(ctx))
	}
	next := revision()
	args := s.args(id, next, p)
	stmt := s.stmt.Update
	if rev == 0 {
		var won int
		row, err := scan(s.pool.QueryRow(ctx, s.stmt.Claim, args...), &won)
		switch {
		case errors.Is(err, pgx.ErrNoRows): // inserted by another since the statement began
			return 0, s.conflict(ctx, id)
		case err != nil:
			return 0, written(op, err)
		case won == 1:
			return next, nil
		case !row.forgotten:
			return 0, &idem.ConflictError{Current: s.present(ctx, id, row)}
		}
		stmt, rev = s.stmt.Revive, row.Rev
	}
	tag, err := s.pool.Exec(ctx, stmt, append(args, rev)...)
	if err != nil {
		return 0, written(op, err)
	}
	if tag.RowsAffected() == 0 {
		return 0, s.conflict(ctx, id)
	}
	return next, nil
}

// Extend is idem.Store.
func (s *Store) Extend(ctx context.Context, id string, rev int64, attempt time.Duration) error {
	const op = "extending an attempt"
	if ctx.Err() != nil {
		return notApplied(op, context.Cause(ctx))
	}
	tag, err := s.pool.Exec(ctx, s.stmt.Extend, millis(attempt), millis(attempt), id, rev)
	if err != nil {
		return written(op, err)
	}
	if tag.RowsAffected() == 0 {
		return s.conflict(ctx, id)
	}
	return nil
}

// Schema is the table as SQL, for your migrations. It changes none that is there.
func (s *Store) Schema() string { return strings.Join(s.stmt.Create, ";\n") + ";\n" }

// Install runs Schema, unless the table is there: then the database user needs no right to make it.
// Idempotent; any number of processes may call it at once.
func (s *Store) Install(ctx context.Context) error {
	probe := func() error { _, err := s.pool.Exec(ctx, s.stmt.Probe); return err }
	if probe() == nil {
		return nil
	}
	for _, stmt := range s.stmt.Create {
		if _, err := s.pool.Exec(ctx, stmt); err != nil {
			// IF NOT EXISTS fails in a race with another process that makes the table.
			if _, again := s.pool.Exec(ctx, stmt); again != nil {
				return notApplied("install", err)
			}
		}
	}
	if err := probe(); err != nil {
		return notApplied("install: table "+s.c.Table+" is there, but has other columns", err)
	}
	return nil
}

// purgeBatch is how many rows one commit of Purge changes.
const purgeBatch = 500

// Purge is sqlidem.Store.Purge.
func (s *Store) Purge(ctx context.Context) (deleted int, err error) {
	if _, err := s.sweep(ctx, s.stmt.Drop); err != nil {
		return 0, err
	}
	return s.sweep(ctx, s.stmt.Delete)
}

func (s *Store) sweep(ctx context.Context, stmt string) (total int, err error) {
	for {
		tag, err := s.pool.Exec(ctx, stmt, purgeBatch)
		total += int(tag.RowsAffected())
		if err != nil {
			return total, written("purging", err)
		}
		if tag.RowsAffected() < purgeBatch {
			return total, nil
		}
	}
}

// String is for logs.
func (s *Store) String() string { return fmt.Sprintf("pgxidem(%s)", s.c.Table) }
