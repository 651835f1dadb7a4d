package sqlidem

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/tenure-go/tenure/cas"
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
	// Under a context that does not end with ctx: database/sql would roll back by itself, and that can't be told
	// from a body that has committed.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	tx, err := conn.BeginTx(life, &s.c.Tx)
	if err != nil {
		return notApplied("begin", err)
	}
	over := false
	defer func() {
		if !over {
			s.rollback(tx, end)
		}
	}()
	if s.stmt.Begin != "" {
		if _, err := tx.ExecContext(ctx, s.stmt.Begin); err != nil {
			return notApplied("begin"+s.hint(err), err)
		}
	}
	if err := body(tx); err != nil {
		over = true
		if s.rollback(tx, end) {
			return &opError{"transaction", errors.Join(errEnded, err), cas.Uncertain}
		}
		return notApplied("transaction", err)
	}
	if err := ctx.Err(); err != nil {
		return notApplied("commit", err)
	}
	if s.d == MySQL {
		// Gone if the server has rolled back (1213, 1205), or committed (DDL), and gone on as if nothing
		// had happened.
		if _, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT "+dialect.FenceSavepoint); err != nil {
			return &opError{"transaction", errors.Join(errEnded, err), cas.Uncertain}
		}
	}
	over = true
	stop := context.AfterFunc(ctx, end)
	defer stop()
	err = tx.Commit()
	if err != nil && s.d == SQLite {
		// A busy database refuses a COMMIT and leaves the transaction open, but database/sql takes it for
		// ended. Not every driver sees to this.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // fails if the driver did
	}
	return s.committed(err)
}

var errEnded = errors.New("the function ended the transaction, or went on after the server had")

func (s *Store) committed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone):
		return &opError{"commit", errors.Join(errEnded, err), cas.Uncertain}
	case s.d.FaultOf(err) != dialect.NoWord:
		return notApplied("commit", err)
	}
	return uncertain("commit", err)
}

// rollbackTimeout bounds a rollback of which the server does not say that it has arrived.
const rollbackTimeout = 5 * time.Second

// rollback reports whether the transaction had ended before.
func (s *Store) rollback(tx *sql.Tx, end context.CancelFunc) (ended bool) {
	timeout := time.AfterFunc(rollbackTimeout, end)
	defer timeout.Stop()
	return errors.Is(tx.Rollback(), sql.ErrTxDone)
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if _, err := conn.ExecContext(ctx, "SET autocommit = @tenure_autocommit"); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // how database/sql is told to close it
		}
	}, nil
}
