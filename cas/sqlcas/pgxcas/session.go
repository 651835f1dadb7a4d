package pgxcas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/cas/sqlcas/internal/attempt"
	"github.com/tenure-go/tenure/internal/boundtx"
	"github.com/tenure-go/tenure/internal/dialect"
)

// session is one transaction.
type session struct {
	querier
	tx   *watchedTx
	over bool
}

// watchedTx is the transaction that the function gets.
type watchedTx struct {
	pgx.Tx
	closed bool // by the function: the connection is somebody else's
}

func (x *watchedTx) Commit(ctx context.Context) error   { x.closed = true; return x.Tx.Commit(ctx) }
func (x *watchedTx) Rollback(ctx context.Context) error { x.closed = true; return x.Tx.Rollback(ctx) }

// ended reports whether the function has ended the transaction by text, as its connection knows without being asked.
func (x *watchedTx) ended() bool {
	if x.closed {
		return false
	}
	conn := x.Conn()
	return conn != nil && !conn.IsClosed() && conn.PgConn().TxStatus() == 'I'
}

var errSwallowed = errors.New("the transaction had failed, and its function went on: return the database's errors")

// Commit implements attempt.Session.
func (s *session) Commit(ctx context.Context) (attempt.Fate, error) {
	if ctx.Err() != nil {
		return s.Rollback(nil), boundtx.Reason(ctx)
	}
	s.over = true
	ended := s.tx.ended()
	err := s.tx.Commit(ctx)
	switch {
	case ended:
		return attempt.Ended, attempt.ErrEnded
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
		err = fmt.Errorf("%w: %w", boundtx.Reason(ctx), err)
	}
	return attempt.Lost, err
}

// rollbackTimeout bounds a rollback to which the server says nothing. The connection is closed then.
const rollbackTimeout = 5 * time.Second

// Rollback implements attempt.Session. The caller's context may have ended, and the rollback is to arrive
// nevertheless.
func (s *session) Rollback(why error) attempt.Fate {
	if s.over {
		return attempt.RolledBack
	}
	s.over = true
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	ended := s.tx.ended()
	err := s.tx.Rollback(ctx)
	switch {
	case ended, errors.Is(err, pgx.ErrTxClosed) && !boundtx.Vouches(why, s.tx):
		return attempt.Ended
	case err == nil, errors.Is(err, pgx.ErrTxClosed):
		return attempt.RolledBack
	}
	return attempt.Gone
}

// Close implements attempt.Session.
func (s *session) Close(context.Context) { s.Rollback(nil) }
