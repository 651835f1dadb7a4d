package sqlcas

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas/sqlcas/internal/attempt"
	"github.com/tenure-go/tenure/internal/boundtx"
	"github.com/tenure-go/tenure/internal/dialect"
)

// session is one transaction on a connection of its own. On MySQL the connection's settings are changed for as
// long, which is why the connection is held.
type session struct {
	querier
	d       Dialect
	conn    *sql.Conn
	tx      *sql.Tx
	tie     *boundtx.Tie
	altered bool // the connection's autocommit is to be restored
}

// On MySQL: settings of the connection.
const (
	noAutocommit   = "SET @tenure_autocommit = @@autocommit, autocommit = 0"
	autocommit     = "SET autocommit = @tenure_autocommit"
	restoreTimeout = 5 * time.Second
)

// begin starts a transaction. A pool may hand out a connection that the server has closed meanwhile; nothing is
// done then, and the next try gets another.
func begin(ctx context.Context, db *sql.DB, d Dialect, opts sql.TxOptions) (_ *session, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{d: d, conn: conn}
	defer func() {
		if err != nil {
			s.Close(ctx)
		}
	}()
	if d == dialect.MySQL {
		s.altered = true // even if it fails, it may have been done
		if _, err := conn.ExecContext(ctx, noAutocommit); err != nil {
			return nil, err
		}
	}
	if s.tx, s.tie, err = boundtx.Begin(ctx, conn, d, &opts); err != nil {
		return nil, err
	}
	s.querier = querier{s.tx}
	return s, nil
}

// errReplaced: the connection lives, and is in another transaction than the one that was begun.
var errReplaced = errors.New("the function went on after the server had rolled back (1213, 1205), which it should have " +
	"returned, or it committed (DDL does so too)")

// errSwallowed: Postgres turned the COMMIT of a failed transaction into a ROLLBACK.
var errSwallowed = errors.New("the transaction had failed, and its function went on: return the database's errors")

// Commit implements attempt.Session.
func (s *session) Commit(ctx context.Context) (attempt.Fate, error) {
	if replaced, err := s.tie.Whole(ctx); err != nil {
		fate := s.Rollback(err)
		switch {
		case replaced:
			return attempt.Ended, fmt.Errorf("%w: %w", errReplaced, err)
		case fate == attempt.Ended:
			err = attempt.ErrEnded
		}
		return fate, err
	}
	sent, err := s.tie.Commit(ctx)
	switch {
	case err == nil:
		return attempt.Committed, nil
	case !sent:
		return s.Rollback(nil), err
	case s.d.FaultOf(err) != dialect.NoWord:
		return attempt.RolledBack, err
	case ctx.Err() != nil:
		// The driver knows only that the bound was cut; or database/sql has rolled back before the COMMIT was sent, and says
		// sql.ErrTxDone, which is not the function's doing.
		return attempt.Lost, fmt.Errorf("%w: %w", boundtx.Reason(ctx), err)
	case errors.Is(err, sql.ErrTxDone), s.d.NoTransaction(err):
		return attempt.Ended, attempt.ErrEnded
	case s.swallowed(ctx, err):
		return attempt.RolledBack, fmt.Errorf("%w: %w", errSwallowed, err)
	}
	return attempt.Lost, err
}

// swallowed reports whether err is the driver's word for a COMMIT that the server has answered with ROLLBACK,
// which comes without a code. If the connection answers to what is sent behind the COMMIT, then that had an
// answer, and it was no success.
func (s *session) swallowed(ctx context.Context, err error) bool {
	if s.d != dialect.Postgres || s.d.Answered(err) || s.d.Dead(err) {
		return false
	}
	_, dead := s.conn.ExecContext(ctx, "SELECT 1")
	return dead == nil
}

// Rollback implements attempt.Session.
func (s *session) Rollback(why error) attempt.Fate {
	ended, err := s.tie.Rollback(why)
	switch {
	case ended:
		return attempt.Ended
	case err == nil, errors.Is(err, sql.ErrTxDone), s.d.NoTransaction(err):
		return attempt.RolledBack
	}
	return attempt.Gone
}

// Close implements attempt.Session. The connection goes back to the pool with its settings restored, or not at
// all.
func (s *session) Close(ctx context.Context) {
	clean := false
	if s.tie != nil {
		s.Rollback(nil)
		defer s.tie.End()
		clean = s.tie.Clean()
	}
	if s.altered {
		bad := !clean
		if clean {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
			defer cancel()
			_, err := s.conn.ExecContext(ctx, autocommit)
			bad = err != nil
		}
		if bad {
			_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // how database/sql is told to close it
		}
	}
	_ = s.conn.Close() // it only returns the connection
}
