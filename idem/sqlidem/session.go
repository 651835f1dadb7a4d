package sqlidem

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

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
	tx, tie, err := boundtx.Begin(ctx, conn, s.d, &s.c.Tx)
	if err != nil {
		return notApplied("begin", err)
	}
	defer tie.End()
	defer tie.Rollback(nil) // also if body panics
	if s.stmt.Begin != "" {
		if _, err := tx.ExecContext(ctx, s.stmt.Begin); err != nil {
			return notApplied("begin"+s.hint(err), err)
		}
	}
	if err := body(tx); err != nil {
		return gaveUp(tie, "transaction", err, err)
	}
	// A connection that does not answer is another matter than a transaction that was replaced: nothing was committed on it.
	switch replaced, err := tie.Whole(ctx); {
	case replaced:
		return &opError{"transaction", errors.Join(errEnded, err), cas.Uncertain}
	case err != nil:
		return gaveUp(tie, "transaction", err, err)
	}
	sent, err := tie.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case !sent:
		return gaveUp(tie, "commit", err, nil)
	}
	return s.committed(ctx, err)
}

var errEnded = errors.New("the function ended the transaction, or went on after the server had")

// gaveUp rolls back because of why, and words err: applied it was not, unless the function has ended the transaction.
func gaveUp(tie *boundtx.Tie, op string, err, why error) error {
	if ended, _ := tie.Rollback(why); ended {
		return &opError{op, errors.Join(errEnded, err), cas.Uncertain}
	}
	return notApplied(op, err)
}

// committed words the error of a COMMIT that was to be sent.
func (s *Store) committed(ctx context.Context, err error) error {
	switch {
	case s.d.FaultOf(err) != dialect.NoWord:
		return notApplied("commit", err)
	case ctx.Err() != nil:
		// Either COMMIT was under way, or database/sql has rolled back before it, and says sql.ErrTxDone. The record tells.
		return uncertain("commit", fmt.Errorf("%w: %w", boundtx.Reason(ctx), err))
	case errors.Is(err, sql.ErrTxDone), s.d.NoTransaction(err):
		return &opError{"commit", errors.Join(errEnded, err), cas.Uncertain}
	}
	return uncertain("commit", err)
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
