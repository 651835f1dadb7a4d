package pgxcas

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas/internal/attempt"
	"github.com/tenure-go/tenure/internal/dialect"
)

// Pool begins transactions: a *pgxpool.Pool. A *pgx.Conn will do for a program that has but one; then DB is
// no safer for concurrent use than that.
type Pool interface {
	Querier
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Config configures a DB. The zero value is a good one. All but Tx is as in sqlcas.Config.
type Config struct {
	// Tx is how the transactions of Retry and Once begin. Once refuses a read-only one. Defaults to the
	// server's.
	Tx pgx.TxOptions

	Tries     int              // Defaults to 10.
	Table     string           // Defaults to "tenure_receipt".
	Transient func(error) bool // Defaults to none.
	Observe   func(cas.Effort) // Defaults to nobody.
}

// DB is sqlcas.DB for pgx: see there. Make it with New; safe for concurrent use.
type DB struct {
	pool     Pool
	c        Config
	receipts attempt.Receipts
}

// New checks its arguments, all faults joined, and does no I/O. The caller keeps pool, and closes it after
// the last use of the DB. The Outcome of its error is NotApplied.
func New(pool Pool, c Config) (*DB, error) {
	if c.Table == "" {
		c.Table = "tenure_receipt"
	}
	if c.Tries <= 0 {
		c.Tries = attempt.DefaultTries
	}
	receipts, err := attempt.NewReceipts(dialect.Postgres, c.Table)
	if pool == nil {
		err = errors.Join(errors.New("pool is nil"), err)
	}
	if err != nil {
		return nil, notApplied("New", err)
	}
	return &DB{pool: pool, c: c, receipts: receipts}, nil
}

// Retry is sqlcas.DB.Retry. pgx doesn't tie a transaction to a context: fn should use ctx.
func (r *DB) Retry(ctx context.Context, fn func(pgx.Tx) error) error {
	return attempt.Do(ctx, r.effort(), "", r.begin(r.c.Tx), nil, inTx(fn))
}

// Once is sqlcas.DB.Once.
func (r *DB) Once(ctx context.Context, id string, fn func(pgx.Tx) error) error {
	receipt, err := r.receipts.Receipt("pgxcas", id)
	if err == nil && r.c.Tx.AccessMode == pgx.ReadOnly {
		err = errors.New("Config.Tx.AccessMode: read only, and a receipt is written; use Retry to read")
	}
	if err != nil {
		return notApplied("once", err)
	}
	return attempt.Do(ctx, r.effort(), id, r.begin(r.c.Tx), receipt, inTx(fn))
}

// Resolve is sqlcas.DB.Resolve.
func (r *DB) Resolve(ctx context.Context, id string) (cas.Outcome, error) {
	receipt, err := r.receipts.Receipt("pgxcas", id)
	if err != nil {
		return cas.Uncertain, &attempt.Error{Package: "pgxcas", Op: "resolve", Err: err, Out: cas.Uncertain}
	}
	return attempt.Resolve(ctx, r.effort(), receipt, r.begin(plain))
}

// Sweep is sqlcas.DB.Sweep.
func (r *DB) Sweep(ctx context.Context, age time.Duration) (deleted int, err error) {
	return attempt.Sweep(ctx, r.effort(), r.receipts, age, r.begin(plain))
}

// Schema is the table of receipts as SQL, for your migrations: that of sqlcas.DB.Schema. It changes no
// table that is there.
func (r *DB) Schema() string { return r.receipts.Schema() }

// Install runs Schema, unless the table is there: then the database user needs no right to make it.
// Idempotent; any number of processes may call it at once.
func (r *DB) Install(ctx context.Context) error {
	return r.receipts.Install(ctx, querier{r.pool}, "pgxcas")
}

// plain is how transactions about receipts alone begin: each statement sees what is there.
var plain = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

func (r *DB) effort() attempt.Config {
	return attempt.Config{
		Package: "pgxcas", Dialect: dialect.Postgres, Tries: r.c.Tries, Transient: r.c.Transient, Observe: r.c.Observe,
	}
}

func (r *DB) begin(opts pgx.TxOptions) func(context.Context) (*session, error) {
	return func(ctx context.Context) (*session, error) {
		tx, err := r.pool.BeginTx(ctx, opts)
		if err != nil {
			return nil, err
		}
		watched := &watchedTx{Tx: tx}
		return &session{querier: querier{watched}, tx: watched}, nil
	}
}

func inTx(fn func(pgx.Tx) error) func(*session) error {
	return func(s *session) error { return fn(s.tx) }
}

func notApplied(op string, err error) error {
	return &attempt.Error{Package: "pgxcas", Op: op, Err: err, Out: cas.NotApplied}
}
