package pgxfence

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Config configures a Fence. The zero value is a good one.
type Config struct {
	// Table is the fence's table: [a-z_][a-z0-9_]*, at most 48 characters, with or without a
	// schema before it. Four more things take their names from it: the tables Table_wanted and
	// Table_position, the sequence Table_generation and the function Table_guard. Defaults to
	// "tenure_fence", as in fence.SQLConfig.
	Table string

	// Tx is how Tx and Batch begin. Read-only is refused, and so are queries of one's own. Defaults to
	// what the server, the role or the connection say.
	Tx pgx.TxOptions

	// Idle is how long the server lets a transaction of Tx or Batch wait for the process, before it
	// ends the session: for the next command (idle_in_transaction_session_timeout), or for results to
	// be read (tcp_user_timeout, which does nothing on a Unix socket). A process that is paused holds
	// the rows that it has written until then. Set in BEGIN's round trip, and left away where the
	// session is as strict already. Defaults to 10s. Negative leaves the session as it is.
	//
	// It only shortens. A stricter limit of the server, the role or the connection stays in force, as
	// it was when this Fence first asked for it.
	Idle time.Duration

	// Terminate lets a Seal end older owners' transactions of its shard that still hold their rows: it
	// gives them this long to end by themselves, then ends their sessions (pg_terminate_backend).
	// When Seal has returned, none is open. It needs all processes to use one role, or the
	// right pg_signal_backend; and it works only on transactions of a Tx or Batch with Terminate set, for
	// those name group, shard and epoch in their application_name (SET LOCAL; pg_stat_activity shows
	// it). Defaults to 0: nobody is ended, and sessions keep their name.
	Terminate time.Duration
}

const defaultIdle = 10 * time.Second

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Table == "" {
		c.Table = "tenure_fence"
	}
	if err := dialect.CheckName(c.Table); err != nil {
		errs = append(errs, refused("pgxfence: Config.Table: %v", err))
	}
	errs = append(errs, checkOptions(c.Tx))
	if c.Idle == 0 {
		c.Idle = defaultIdle
	}
	if c.Idle > math.MaxInt32*time.Millisecond {
		errs = append(errs, refused("pgxfence: Config.Idle: %s: want at most %s", c.Idle, math.MaxInt32*time.Millisecond))
	}
	if c.Terminate < 0 {
		errs = append(errs, refused("pgxfence: Config.Terminate: %s: want 0 for never, or more", c.Terminate))
	}
	return c, errors.Join(errs...)
}

// Fence fences a Postgres database by one row per group and shard, as fence.SQL does: what is said
// there of Postgres holds here. Make it with New; safe for concurrent use.
type Fence struct {
	pool   *pgxpool.Pool
	c      Config
	stmt   dialect.Fence
	begin  string // what begins a transaction, without settings
	server atomic.Pointer[limits]
	passed dialect.Passed

	serving sync.Map // *owner.Tenure by shard.Token: what Serve runs
}

// New checks its arguments, all faults joined, and does no I/O. The caller keeps pool, and closes
// it after the last use of the Fence. The Outcome of its error is NotApplied.
func New(pool *pgxpool.Pool, c Config) (*Fence, error) {
	c, err := c.withDefaults()
	if pool == nil {
		err = errors.Join(refused("pgxfence: New: pool is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Fence{
		pool: pool, c: c,
		stmt:  dialect.NewFence(dialect.Postgres, c.Table),
		begin: beginStatement(c.Tx),
	}, nil
}

// Serve is an owner.Handler that seals, is ready, and waits: for services with no state in memory. A Tx
// or Batch that is refused because a newer owner has sealed or because the seal is gone ends the tenure
// (owner.Tenure.Fail): the next one seals again. So does one in a handler of yours, if its context comes from
// the tenure.
func (f *Fence) Serve(ctx context.Context, t *owner.Tenure) error {
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
func (f *Fence) giveUp(ctx context.Context, tok shard.Token, err error) {
	_, fenced := errors.AsType[*fence.FencedError](err)
	if !fenced && !errors.Is(err, fence.ErrNotSealed) {
		return
	}
	if t, ok := f.serving.Load(tok); ok {
		t.(*owner.Tenure).Fail(err)
	} else if t, none := owner.From(ctx); none == nil && t.Token() == tok {
		t.Fail(err)
	}
}
