package pgxcas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/cas/sqlcas/internal/attempt"
	"github.com/tenure-go/tenure/internal/dialect"
)

// session is one transaction.
type session struct {
	querier
	tx   pgx.Tx
	over bool
}

var errSwallowed = errors.New("the transaction had failed, and its function went on: return the database's errors")

// Commit implements attempt.Session.
func (s *session) Commit(ctx context.Context) (attempt.Fate, error) {
	if ctx.Err() != nil {
		return s.Rollback(), context.Cause(ctx)
	}
	s.over = true
	err := s.tx.Commit(ctx)
	switch {
	case err == nil:
		return attempt.Committed, nil
	case errors.Is(err, pgx.ErrTxClosed):
		return attempt.Ended, attempt.ErrEnded
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return attempt.RolledBack, fmt.Errorf("%w: %w", errSwallowed, err)
	case dialect.Postgres.FaultOf(err) != dialect.NoWord:
		return attempt.RolledBack, err
	case pgconn.SafeToRetry(err) && dialect.Postgres.Dead(err):
		return attempt.Gone, err
	case pgconn.SafeToRetry(err): // the connection is busy with rows that the function has left open, say
		return attempt.RolledBack, err
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return attempt.Lost, err
}

// rollbackTimeout bounds a rollback to which the server says nothing. The connection is closed then.
const rollbackTimeout = 5 * time.Second

// Rollback implements attempt.Session. The caller's context may have ended, and the rollback is to arrive
// nevertheless.
func (s *session) Rollback() attempt.Fate {
	if s.over {
		return attempt.RolledBack
	}
	s.over = true
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	err := s.tx.Rollback(ctx)
	switch {
	case err == nil:
		return attempt.RolledBack
	case errors.Is(err, pgx.ErrTxClosed):
		return attempt.Ended
	}
	return attempt.Gone
}

// Close implements attempt.Session.
func (s *session) Close(context.Context) { s.Rollback() }
