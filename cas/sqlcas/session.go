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
	bound   *boundtx.Tie
	altered bool // the connection's autocommit is to be restored
	over    bool // committed or rolled back, or tried to
	clean   bool // and the server agreed: the connection may be used again
}

// On MySQL: settings of the connection, and a savepoint that is gone once the server has rolled back or
// committed behind the function's back.
const (
	noAutocommit   = "SET @tenure_autocommit = @@autocommit, autocommit = 0"
	autocommit     = "SET autocommit = @tenure_autocommit"
	savepoint      = "SAVEPOINT tenure_tx"
	endSavepoint   = "RELEASE SAVEPOINT tenure_tx"
	restoreTimeout = 5 * time.Second
)

// begin starts a transaction. A pool may hand out a connection that the server has closed meanwhile; nothing is
// done then, and the next try gets another.
func begin(ctx context.Context, db *sql.DB, d Dialect, opts sql.TxOptions) (_ *session, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{d: d, conn: conn, over: true}
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
	if s.tx, s.bound, err = boundtx.Begin(ctx, conn, &opts); err != nil {
		return nil, err
	}
	s.over, s.querier = false, querier{s.tx}
	if d == dialect.MySQL {
		if _, err := s.tx.ExecContext(ctx, savepoint); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// errReplaced: the connection lives, and is in another transaction than the one that was begun.
var errReplaced = errors.New("the function went on after the server had rolled back (1213, 1205), which it should have " +
	"returned, or it committed (DDL does so too)")

// errSwallowed: Postgres turned the COMMIT of a failed transaction into a ROLLBACK.
var errSwallowed = errors.New("the transaction had failed, and its function went on: return the database's errors")

// Commit implements attempt.Session.
func (s *session) Commit(ctx context.Context) (attempt.Fate, error) {
	if s.d == dialect.MySQL {
		if fate, err := s.whole(ctx); err != nil {
			return fate, err
		}
	}
	if s.bound.Release() {
		return attempt.RolledBack, context.Cause(ctx)
	}
	s.over = true
	stop := context.AfterFunc(ctx, s.bound.End)
	defer stop()
	err := s.tx.Commit()
	s.clean = err == nil
	if err == nil {
		return attempt.Committed, nil
	}
	s.forget()
	switch {
	case s.d.FaultOf(err) != dialect.NoWord:
		return attempt.RolledBack, err
	case ctx.Err() != nil:
		// The driver knows only that the bound was cut; or database/sql has rolled back before the COMMIT was sent, and says
		// sql.ErrTxDone, which is not the function's doing.
		return attempt.Lost, fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case errors.Is(err, sql.ErrTxDone):
		return attempt.Ended, attempt.ErrEnded
	case s.swallowed(ctx, err):
		return attempt.RolledBack, fmt.Errorf("%w: %w", errSwallowed, err)
	}
	return attempt.Lost, err
}

// whole fails unless this is still the transaction that was begun. MySQL rolls back by itself on a deadlock
// (1213), and on a lock wait timeout (1205) where so configured, and goes on as if nothing had happened. With
// autocommit off, what a function does that has swallowed the error is at least not committed one by one,
// and the savepoint being gone tells. Elsewhere a failed transaction refuses what follows.
func (s *session) whole(ctx context.Context) (attempt.Fate, error) {
	_, err := s.tx.ExecContext(ctx, endSavepoint)
	if err == nil {
		return attempt.Committed, nil
	}
	_, dead := s.tx.ExecContext(ctx, "DO 0")
	fate := s.Rollback()
	if dead == nil {
		return attempt.Ended, fmt.Errorf("%w: %w", errReplaced, err)
	}
	if fate == attempt.Ended {
		err = attempt.ErrEnded
	}
	return fate, err
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

// forget ends a transaction of SQLite whose COMMIT was refused because of others: it stays open there, but
// database/sql takes it for ended. Not every driver sees to this.
func (s *session) forget() {
	if s.d == dialect.SQLite {
		_, _ = s.conn.ExecContext(context.Background(), "ROLLBACK") // fails if the driver did
	}
}

// Rollback implements attempt.Session.
func (s *session) Rollback() attempt.Fate {
	if s.over {
		return attempt.RolledBack
	}
	s.over = true
	if s.bound.Release() {
		return attempt.RolledBack // and the connection is in who knows what state
	}
	timeout := time.AfterFunc(boundtx.RollbackTimeout, s.bound.End)
	defer timeout.Stop()
	err := s.tx.Rollback()
	s.clean = err == nil
	switch {
	case err == nil:
		return attempt.RolledBack
	case errors.Is(err, sql.ErrTxDone):
		return attempt.Ended
	}
	return attempt.Gone
}

// Close implements attempt.Session. The connection goes back to the pool with its settings restored, or not at
// all.
func (s *session) Close(ctx context.Context) {
	s.Rollback()
	if s.bound != nil {
		defer s.bound.End()
	}
	if s.altered {
		bad := !s.clean
		if s.clean {
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
