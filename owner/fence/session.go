package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/internal/boundtx"
	"github.com/tenure-go/tenure/internal/dialect"
)

// session is one transaction on a connection of its own. On MySQL the connection's settings are
// changed for as long, which is why the connection has to be held.
type session struct {
	d       dialect.Dialect
	conn    *sql.Conn
	tx      *sql.Tx
	bound   *boundtx.Tie // of tx to its context
	restore string       // sets back what was changed; "" if nothing was
	over    bool         // committed or rolled back, or tried to
	clean   bool         // and the server agreed: the connection may be used again
}

// begin starts a transaction. A connection that turns out to be dead before anything was done on it is
// replaced, as database/sql does where it chooses the connection itself.
func (f *SQL) begin(ctx context.Context) (*session, error) {
	for try := 1; ; try++ {
		s, err := f.tryBegin(ctx)
		if err == nil || !errors.Is(err, driver.ErrBadConn) || try == 3 {
			return s, err
		}
	}
}

func (f *SQL) tryBegin(ctx context.Context) (_ *session, err error) {
	facts, err := f.facts(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{d: f.d, conn: conn}
	defer func() {
		if err != nil {
			s.end(ctx)
		}
	}()
	if f.d == dialect.MySQL {
		set, restore := f.settings(facts)
		s.restore = restore // even if set fails, it may have been applied
		if _, err := conn.ExecContext(ctx, set); err != nil {
			s.over = true
			return nil, err
		}
	}
	if s.tx, s.bound, err = boundtx.Begin(ctx, conn, &f.c.Tx); err != nil {
		s.over = true
		return nil, err
	}
	if facts.limits != "" {
		if _, err := s.tx.ExecContext(ctx, facts.limits); err != nil {
			return nil, err
		}
	}
	if f.stmt.Begin != "" {
		if _, err := s.tx.ExecContext(ctx, f.stmt.Begin); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// whole fails unless this is still the transaction that begin started. MySQL rolls back by itself
// on a deadlock (1213), and on a lock wait timeout (1205) where so configured, and then goes on as if
// nothing had happened; an fn that swallows the error would have its later statements committed
// without the earlier ones. With autocommit off they have at least not been committed one by one,
// and the savepoint being gone tells. Elsewhere a failed transaction refuses what follows by itself.
//
// replaced means that the connection lives and is in another transaction: the first was rolled
// back, or fn has committed it (by DDL, say), and there is no telling which.
func (s *session) whole(ctx context.Context) (replaced bool, err error) {
	if s.d != dialect.MySQL {
		return false, nil
	}
	if _, err = s.tx.ExecContext(ctx, "RELEASE SAVEPOINT "+dialect.FenceSavepoint); err == nil {
		return false, nil
	}
	_, dead := s.tx.ExecContext(ctx, "DO 0")
	return dead == nil, err
}

// commit commits. An error does not say whether that failed or only its reply; unless the op is
// opFn, for ctx had ended and nothing was sent.
func (s *session) commit(ctx context.Context) (op string, err error) {
	if s.bound.Release() {
		return opFn, notApplied(opCommit, ctx.Err())
	}
	s.over = true
	stop := context.AfterFunc(ctx, s.bound.End)
	defer stop()
	err = s.tx.Commit()
	s.clean = err == nil
	if err == nil {
		return opNone, nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err) // the driver knows only that the bound has ended
	}
	if s.d == dialect.SQLite {
		// A busy database refuses a COMMIT and leaves the transaction open, but database/sql takes it
		// for ended. Not every driver sees to this.
		_, _ = s.conn.ExecContext(context.Background(), "ROLLBACK") // fails if the driver did
	}
	return opCommit, err
}

// rollback gives the transaction up, and reports whether fn had ended it before.
func (s *session) rollback() (ended bool) {
	if s.over || s.tx == nil {
		return false
	}
	s.over = true
	if s.bound.Release() {
		return false // rolled back, and the connection is in who knows what state
	}
	timeout := time.AfterFunc(boundtx.RollbackTimeout, s.bound.End)
	defer timeout.Stop()
	err := s.tx.Rollback()
	s.clean = err == nil
	return errors.Is(err, sql.ErrTxDone)
}

// restoreTimeout bounds the statement that sets a connection's settings back.
const restoreTimeout = 5 * time.Second

// end rolls back unless that is over, and returns the connection to the pool: with its settings
// restored, or not at all.
func (s *session) end(ctx context.Context) {
	s.rollback()
	if s.bound != nil {
		defer s.bound.End()
	}
	if s.restore != "" {
		bad := !s.clean
		if s.clean {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
			defer cancel()
			_, err := s.conn.ExecContext(ctx, s.restore)
			bad = err != nil
		}
		if bad {
			_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // how database/sql is told to close it
		}
	}
	_ = s.conn.Close() // it only returns the connection
}
