package sqlidem

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/boundtx"
	"github.com/tenure-go/tenure/internal/dialect"
)

// run runs body in a transaction and commits, for a store without a fence, whose Tx does the same and
// guards. The error of a commit is uncertain unless the database has said that it refused; every other
// one says NotApplied, unless body has ended the transaction behind our back.
func (s *Store) run(ctx context.Context, body func(*sql.Tx) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return notApplied("begin", err)
	}
	defer conn.Close() // it only returns the connection
	restore, err := s.prepare(ctx, conn)
	if err != nil {
		return notApplied("begin", err)
	}
	defer restore()
	tx, tie, err := boundtx.Begin(ctx, conn, &s.c.Tx)
	if err != nil {
		return notApplied("begin", err)
	}
	defer tie.End()
	x := &session{s: s, conn: conn, tx: tx, tie: tie}
	defer x.rollback() // also if body panics
	if s.stmt.Begin != "" {
		if _, err := tx.ExecContext(ctx, s.stmt.Begin); err != nil {
			return notApplied("begin"+s.hint(err), err)
		}
	}
	if err := body(tx); err != nil {
		if x.rollback() {
			return &opError{"transaction", errors.Join(errEnded, err), cas.Uncertain}
		}
		return notApplied("transaction", err)
	}
	if err := x.whole(ctx); err != nil {
		return err
	}
	return x.commit(ctx)
}

// session is a transaction that is under way. One goroutine uses it.
type session struct {
	s    *Store
	conn *sql.Conn
	tx   *sql.Tx
	tie  *boundtx.Tie // to the caller's context
	over bool         // committed or rolled back, or tried to
}

var errEnded = errors.New("the function ended the transaction, or went on after the server had")

// whole fails unless this is still the transaction that was begun. On MySQL its savepoint is gone if the server has rolled
// back (1213, 1205), or committed (DDL), and gone on as if nothing had happened. A connection that does not answer is another
// matter: nothing was committed on it.
func (x *session) whole(ctx context.Context) error {
	if x.s.d != MySQL {
		return nil
	}
	_, err := x.tx.ExecContext(ctx, "RELEASE SAVEPOINT "+dialect.FenceSavepoint)
	if err == nil {
		return nil
	}
	_, dead := x.tx.ExecContext(ctx, "DO 0")
	if x.rollback() || dead == nil {
		return &opError{"transaction", errors.Join(errEnded, err), cas.Uncertain}
	}
	return notApplied("transaction", err)
}

func (x *session) commit(ctx context.Context) error {
	if x.tie.Release() {
		x.over = true
		return notApplied("commit", context.Cause(ctx))
	}
	x.over = true
	stop := context.AfterFunc(ctx, x.tie.End)
	defer stop()
	err := x.tx.Commit()
	if err == nil {
		return nil
	}
	if x.s.d == SQLite {
		// A busy database refuses a COMMIT and leaves the transaction open, but database/sql takes it for
		// ended. Not every driver sees to this.
		_, _ = x.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // fails if the driver did
	}
	return x.s.committed(ctx, err)
}

// committed words the error of a COMMIT that was to be sent.
func (s *Store) committed(ctx context.Context, err error) error {
	switch {
	case s.d.FaultOf(err) != dialect.NoWord:
		return notApplied("commit", err)
	case ctx.Err() != nil:
		// Either COMMIT was under way, or database/sql has rolled back before it, and says sql.ErrTxDone. The record tells.
		return uncertain("commit", fmt.Errorf("%w: %w", context.Cause(ctx), err))
	case errors.Is(err, sql.ErrTxDone):
		return &opError{"commit", errors.Join(errEnded, err), cas.Uncertain}
	}
	return uncertain("commit", err)
}

// rollback gives the transaction up, unless it is over, and reports whether the function had ended it before.
func (x *session) rollback() (ended bool) {
	if x.over {
		return false
	}
	x.over = true
	if x.tie.Release() {
		return false // it was rolled back when the caller's context ended
	}
	timeout := time.AfterFunc(boundtx.RollbackTimeout, x.tie.End)
	defer timeout.Stop()
	return errors.Is(x.tx.Rollback(), sql.ErrTxDone)
}

// prepare turns autocommit off on MySQL: after a deadlock the server has rolled back, and what a function
// that did not notice does next would commit by itself.
func (s *Store) prepare(ctx context.Context, conn *sql.Conn) (restore func(), err error) {
	if s.d != MySQL {
		return func() {}, nil
	}
	if _, err := conn.ExecContext(ctx, "SET @tenure_autocommit = @@autocommit, autocommit = 0"); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), boundtx.RollbackTimeout)
		defer cancel()
		if _, err := conn.ExecContext(ctx, "SET autocommit = @tenure_autocommit"); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // how database/sql is told to close it
		}
	}, nil
}
