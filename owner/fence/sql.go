package fence

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// Dialect is a kind of database: Postgres, MySQL (and MariaDB), or SQLite.
type Dialect = dialect.Dialect

const (
	Postgres = dialect.Postgres
	MySQL    = dialect.MySQL // and MariaDB
	SQLite   = dialect.SQLite
)

// SQLConfig configures a SQL. The zero value is a good one.
type SQLConfig struct {
	// Table is the fence's table: [a-z_][a-z0-9_]*, at most 48 characters, with or without a
	// schema before it. Others take their names from it: the tables Table_wanted and Table_position, and on
	// Postgres the sequence Table_generation and the function Table_guard. Defaults to "tenure_fence".
	Table string

	// Tx is how Tx begins. Read-only is refused. Defaults to the driver's.
	Tx sql.TxOptions

	// Idle is how long the server lets a transaction of Tx, or of a seal, wait for the process, for its next
	// statement or for its results to be read, before it ends the session: a process that is paused
	// inside a transaction holds the rows it has written until then, and its successor waits for them.
	// Defaults to 10s. Costs a round trip on Postgres (SET LOCAL idle_in_transaction_session_timeout and
	// tcp_user_timeout, so that no pooler carries it on); if that matters, set the two at connect, where it
	// then costs nothing. Whole seconds on MariaDB, rounded up (idle_transaction_timeout,
	// net_write_timeout, net_read_timeout). MySQL has no setting for the next statement, and SQLite none at
	// all. Negative leaves the session as it is.
	//
	// It only shortens. A stricter limit, of the server, the role or the DSN, stays in force; on
	// Postgres as it was when this SQL first asked for it, since asking again would cost each
	// transaction a round trip, or take its snapshot before fn's first statement.
	Idle time.Duration
}

const defaultIdle = 10 * time.Second

func (c SQLConfig) withDefaults() (SQLConfig, error) {
	var errs []error
	if c.Table == "" {
		c.Table = "tenure_fence"
	}
	if err := dialect.CheckName(c.Table); err != nil {
		errs = append(errs, refused("fence: SQLConfig.Table: %v", err))
	}
	if c.Tx.ReadOnly {
		errs = append(errs, refused("fence: SQLConfig.Tx.ReadOnly: a guarded transaction writes; use a plain one to read"))
	}
	if c.Tx.Isolation < sql.LevelDefault || c.Tx.Isolation > sql.LevelLinearizable {
		errs = append(errs, refused("fence: SQLConfig.Tx.Isolation: %d is not a level of database/sql", c.Tx.Isolation))
	}
	if c.Idle == 0 {
		c.Idle = defaultIdle
	}
	if c.Idle > math.MaxInt32*time.Millisecond {
		errs = append(errs, refused("fence: SQLConfig.Idle: %s: want at most %s", c.Idle, math.MaxInt32*time.Millisecond))
	}
	return c, errors.Join(errs...)
}

// SQL fences a database by one row per group and shard. Make it with NewSQL; safe for concurrent use.
//
// All tables that a shard's owner writes under the fence must be in the database of the fence's
// own tables, for it is one transaction that holds or fails. Connect to the primary. Isolation may
// be any level from READ COMMITTED up.
//
// Postgres: a pooler may pool sessions or transactions. A guard that has passed passes again, for five seconds and until
// anything is sealed, without reading the fence's row; it then holds an advisory lock of the transaction, on the OID of
// the sequence Table_generation and a number (don't lock that pair yourself). A process that is paused inside a
// transaction keeps its successor from the rows it has written, and from sealing if it has passed its
// guard, until SQLConfig.Idle is over. A driver that pipelines may be paused when it has sent half of what
// it meant to; then only pg_terminate_backend helps, which pgxfence can do for you.
//
// MySQL and MariaDB: InnoDB. Tx and Seal turn autocommit off while they run, and restore it, because a
// deadlock (1213) rolls the transaction back and what follows would commit by itself, unguarded. DDL and
// LOCK TABLES commit implicitly, so fn must not use them. COMMIT and ROLLBACK go as text, because the driver's own obey no
// context, and database/sql's comes behind, on a transaction that is over: a round trip more. XA is not supported; nor is a cluster with
// more than one primary (Galera, multi-primary Group Replication), which Install, Seal and Tx
// refuse: there a lock on one node holds off nobody on another. They refuse binlog_format=STATEMENT
// as well, where the server logs: Seal needs READ COMMITTED, in which such a server takes no write (1665).
//
// SQLite: let writers wait for each other with a busy timeout (for modernc.org/sqlite
// "_pragma=busy_timeout(5000)" in the DSN); Tx takes the write lock when it begins, as BEGIN
// IMMEDIATE does. There is one writer at a time, and those who wait are not queued but try again, so a
// Seal may be overtaken for some tenths of a second by writers that never rest. A process paused
// inside a transaction blocks everybody else until it goes on or ends, and no setting helps against that.
type SQL struct {
	db     *sql.DB
	d      Dialect
	c      SQLConfig
	stmt   dialect.Fence
	server atomic.Pointer[serverFacts] // asked once
	passed dialect.Passed              // on Postgres

	serving sync.Map // *owner.Tenure by shard.Token: what Serve runs
}

// NewSQL checks its arguments, all faults joined, and does no I/O. The caller keeps db, and closes
// it after the last use of the SQL. The Outcome of its error is NotApplied.
func NewSQL(db *sql.DB, d Dialect, c SQLConfig) (*SQL, error) {
	c, err := c.withDefaults()
	if derr := d.Check(); derr != nil {
		err = errors.Join(refused("fence: dialect: %v", derr), err)
	}
	if db == nil {
		err = errors.Join(refused("fence: NewSQL: db is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return &SQL{db: db, d: d, c: c, stmt: dialect.NewFence(d, c.Table)}, nil
}

// Serve is an owner.Handler that seals, is ready, and waits: for services with no state in memory. A Tx that is refused
// because a newer owner has sealed or because the seal is gone, ends the tenure (owner.Tenure.Fail): the next one seals
// again. So does one in a handler of yours, if its context comes from the tenure.
func (f *SQL) Serve(ctx context.Context, t *owner.Tenure) error {
	if err := f.Seal(ctx, t.Token()); err != nil {
		return err
	}
	f.serving.Store(t.Token(), t)
	defer f.serving.Delete(t.Token())
	t.Ready()
	<-ctx.Done()
	return nil
}

// giveUp ends the tenure of tok, if Serve runs it or ctx comes from it, and err says that its seal does not stand: nothing that
// is written under it is accepted any more.
func (f *SQL) giveUp(ctx context.Context, tok shard.Token, err error) {
	_, fenced := errors.AsType[*FencedError](err)
	if !fenced && !errors.Is(err, ErrNotSealed) {
		return
	}
	if t, ok := f.serving.Load(tok); ok {
		t.(*owner.Tenure).Fail(err)
	} else if t, none := owner.From(ctx); none == nil && t.Token() == tok {
		t.Fail(err)
	}
}
