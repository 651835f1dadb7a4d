package sqlcas

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas/internal/attempt"
	"github.com/tenure-go/tenure/internal/dialect"
)

// Config configures a DB. The zero value is a good one.
type Config struct {
	// Tx is how the transactions of Retry and Once begin. Once refuses a read-only one. Defaults to the
	// driver's.
	Tx sql.TxOptions

	// Tries is how many transactions are run before Retry gives up with cas.ErrContended, or with the
	// error of a connection that could not be had. Defaults to 10, as in package cas.
	Tries int

	// Table is the receipts' table: [a-z_][a-z0-9_]*, at most 48 characters, with or without a schema
	// before it. Defaults to "tenure_receipt".
	Table string

	// Transient reports further errors, of the function or of BEGIN, after which the transaction is worth
	// running again: those of a driver that is not known here (see DB), or of a lock that you let time
	// out. It is not asked about a lost commit. Defaults to none.
	Transient func(error) bool

	// Observe is told what a call of Retry, Once or Resolve took, once, before it returns, in the caller's
	// goroutine: for metrics. Its Name is the operation's id. It is not called if the function panics. Defaults to
	// nobody.
	Observe func(cas.Effort)
}

const defaultTable = "tenure_receipt"

// DB runs transactions until their outcome is decided. Make it with New; safe for concurrent use. Connect to
// the primary.
//
// Errors are known of drivers that have an SQLState method (pgx, lib/pq), of go-sql-driver/mysql,
// modernc.org/sqlite and mattn/go-sqlite3. Run again are Postgres 40001 and 40P01; MySQL and MariaDB 1213, 1205
// and 1020; SQLite BUSY with BUSY_SNAPSHOT, and LOCKED; and what ended because its connection did, before a commit
// was sent.
//
// MySQL and MariaDB: InnoDB. Autocommit is turned off while a transaction runs, and restored, because a
// deadlock (1213) rolls the transaction back, and what follows would commit by itself. A function that goes on
// after that is refused at the commit. DDL and LOCK TABLES commit implicitly, so don't use them. That costs five
// round trips, one of them because the driver's own commit obeys no context.
//
// SQLite: give writers a busy timeout, and let transactions take the write lock when they begin (for
// modernc.org/sqlite "_pragma=busy_timeout(5000)&_txlock=immediate" in the DSN). One that reads before it writes
// is otherwise refused at once if another writer comes between, and run again.
type DB struct {
	db       *sql.DB
	d        Dialect
	c        Config
	receipts attempt.Receipts
}

// New checks its arguments, all faults joined, and does no I/O. The caller keeps db, and closes it after the
// last use of the DB. The Outcome of its error is NotApplied.
func New(db *sql.DB, d Dialect, c Config) (*DB, error) {
	if c.Table == "" {
		c.Table = defaultTable
	}
	if c.Tries <= 0 {
		c.Tries = attempt.DefaultTries
	}
	var errs []error
	if db == nil {
		errs = append(errs, errors.New("db is nil"))
	}
	if c.Tx.Isolation < sql.LevelDefault || c.Tx.Isolation > sql.LevelLinearizable {
		errs = append(errs, fmt.Errorf("Config.Tx.Isolation: %d is not a level of database/sql", c.Tx.Isolation))
	}
	receipts, err := attempt.NewReceipts(d, c.Table)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, notApplied("New", err)
	}
	return &DB{db: db, d: d, c: c, receipts: receipts}, nil
}

// Retry runs fn in a transaction and commits, and does so again, at most Config.Tries times, while the
// database refuses it because of others, or its connection ends before a commit was sent. nil means that it
// was applied, once.
//
// fn runs in the caller's goroutine. It must not end the transaction, nor keep it, and it should use ctx.
// Its error rolls back and comes back wrapped: Is and As work as before, and its Outcome is NotApplied. A panic
// rolls back and goes on.
//
// Errors, by what they say of the outcome:
//   - not applied: fn's; the database's refusal; cas.ErrContended after too many; ctx's before a commit was sent.
//   - uncertain: cas.ErrUncertain, of a commit whose reply was lost, which is never tried again; and
//     if fn has ended the transaction itself, by Commit or by text, whatever it returns; but for the guard of a fence, which
//     rolls back when it refuses, and is known to.
//
// It is not seen if fn ends the transaction by text and then begins another or loses the connection; returns a deadlock's error
// on MySQL, or on SQLite its context's, after a commit of its own; or returns nil after that on Postgres, where Retry goes
// on and commits nothing (pgxcas sees it). On MySQL, fn must return the error of a deadlock (1213) that it meets: kept quiet, that
// looks like a commit of its own, and is uncertain.
func (r *DB) Retry(ctx context.Context, fn func(*sql.Tx) error) error {
	return attempt.Do(ctx, r.effort(), "", r.begin(r.c.Tx), nil, inTx(fn))
}

// Once is Retry for an operation that must be applied at most once, however often it is called and by
// whomever: with its id in the table of receipts, and a lost commit tried again, which is safe then. nil means
// that it is applied, by this call or by an earlier one, in which case fn does not run. An id has 1 to 256
// bytes; make it with cas.Dated if receipts are to be swept.
//
// Errors are those of Retry, but for cas.ErrUncertain: only if the database could not be asked again before
// ctx ended or Config.Tries were used up. Call Once again with the same id, or Resolve. ErrReceiptExpired
// if that comes too late. An error of fn is about this call: if an earlier one with this id was uncertain,
// and fn has run, that one was not applied.
func (r *DB) Once(ctx context.Context, id string, fn func(*sql.Tx) error) error {
	receipt, err := r.receipts.Receipt("sqlcas", id)
	if err == nil && r.c.Tx.ReadOnly {
		err = errors.New("Config.Tx.ReadOnly: a receipt is written; use Retry to read")
	}
	if err != nil {
		return notApplied("once", err)
	}
	return attempt.Do(ctx, r.effort(), id, r.begin(r.c.Tx), receipt, inTx(fn))
}

// Resolve settles the outcome of a Once with that id, for good: Applied, or NotApplied, and then no commit
// that was sent before this call will ever be applied. A Once with the id that is still running somewhere, or
// comes later, may still apply the operation.
//
// The outcome is Uncertain, and err says why, if the database could not be asked before ctx ended or within
// Config.Tries: then all is as it was, and Resolve may be called again. It stays Uncertain, with
// cas.ErrReceiptExpired, if the receipt was swept. OutcomeOf(err) is Uncertain as well, for it is about the Once.
// Resolve waits for a transaction of the operation that is still open.
func (r *DB) Resolve(ctx context.Context, id string) (cas.Outcome, error) {
	receipt, err := r.receipts.Receipt("sqlcas", id)
	if err != nil {
		return cas.Uncertain, &attempt.Error{Package: "sqlcas", Op: "resolve", Err: err, Out: cas.Uncertain}
	}
	return attempt.Resolve(ctx, r.effort(), receipt, r.begin(r.plain()))
}

// Sweep forgets the receipts of operations that began longer than age ago, by their ids, which cas.Dated
// made, and returns how many it has deleted. It leaves other receipts alone. Call it now and then, say each
// hour, from one place or from several.
//
// First it raises the horizon, to the minute, before which receipts may be gone. From then on no
// transaction takes a receipt of an operation that began before it, but gets cas.ErrReceiptExpired: a retry
// that comes too late, however late, is never a second application. No clock decides about that; but a sweeper's clock
// that is fast by more than age makes operations expire that have just begun, and the horizon never goes back.
//
// So age is how long after an operation's beginning somebody may still try it or ask what became of it: a day,
// say. It is at least a minute.
//
// Then it deletes, by an index, in transactions of 128. On an error, or when ctx ends, it stops; what it has
// deleted stays deleted and counts, and another Sweep goes on from there. What a commit has deleted whose reply was lost is
// not counted.
func (r *DB) Sweep(ctx context.Context, age time.Duration) (deleted int, err error) {
	return attempt.Sweep(ctx, r.effort(), r.receipts, age, r.begin(r.plain()))
}

// Schema is the table of receipts as SQL, for your migrations. It changes no table that is there.
//
//	id        VARCHAR(256), primary key
//	state     'applied' or 'aborted'; 'horizon' in the row of id '@horizon'
//	began     of a dated id, in seconds since 1970, with an index; else NULL
//	written   by the writer's clock, in seconds since 1970
func (r *DB) Schema() string { return r.receipts.Schema() }

// Install runs Schema, unless the table is there: then the database user needs no right to make it.
// Idempotent; any number of processes may call it at once.
func (r *DB) Install(ctx context.Context) error {
	return r.receipts.Install(ctx, querier{r.db}, "sqlcas")
}

func (r *DB) effort() attempt.Config {
	return attempt.Config{
		Package: "sqlcas", Dialect: r.d, Tries: r.c.Tries, Transient: r.c.Transient, Observe: r.c.Observe,
	}
}

// plain is how transactions about receipts alone begin: each statement sees what is there.
func (r *DB) plain() sql.TxOptions {
	if r.d == dialect.SQLite {
		return sql.TxOptions{} // drivers refuse others; it is serializable anyway
	}
	return sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

func (r *DB) begin(opts sql.TxOptions) func(context.Context) (*session, error) {
	return func(ctx context.Context) (*session, error) { return begin(ctx, r.db, r.d, opts) }
}

func inTx(fn func(*sql.Tx) error) func(*session) error {
	return func(s *session) error { return fn(s.tx) }
}

func notApplied(op string, err error) error {
	return &attempt.Error{Package: "sqlcas", Op: op, Err: err, Out: cas.NotApplied}
}
