package fence

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

// session is one transaction on a connection of its own. On MySQL the connection's settings are
// changed for as long, which is why the connection has to be held.
type session struct {
	conn    *sql.Conn
	tx      *sql.Tx
	tie     *boundtx.Tie // of tx to its context
	marked  bool         // with dialect.Fence.Mark
	restore string       // sets back what was changed; "" if nothing was
}

// begin starts a transaction. A connection that turns out to be dead before anything was done on it is
// replaced, as database/sql does where it chooses the connection itself.
func (f *SQL) begin(ctx context.Context, opts *sql.TxOptions) (*session, error) {
	for try := 1; ; try++ {
		s, err := f.tryBegin(ctx, opts)
		if err == nil || !errors.Is(err, driver.ErrBadConn) || try == 3 {
			return s, err
		}
	}
}

func (f *SQL) tryBegin(ctx context.Context, opts *sql.TxOptions) (_ *session, err error) {
	facts, err := f.facts(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, marked: facts.limits != ""}
	defer func() {
		if err != nil {
			s.end(ctx)
		}
	}()
	if f.d == dialect.MySQL {
		set, restore := f.settings(facts)
		s.restore = restore // even if set fails, it may have been applied
		if _, err := conn.ExecContext(ctx, set); err != nil {
			return nil, err
		}
	}
	if s.tx, s.tie, err = boundtx.Begin(ctx, conn, f.d, opts); err != nil {
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

// commit commits. An error does not say whether that failed or only its reply; unless the op is
// opFn, for ctx had ended and nothing was sent.
func (s *session) commit(ctx context.Context) (op string, err error) {
	sent, err := s.tie.Commit(ctx)
	switch {
	case err == nil:
		return opNone, nil
	case !sent:
		return opFn, s.failed(opCommit, err, nil)
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", boundtx.Reason(ctx), err) // the driver knows only that the bound has ended
	}
	return opCommit, err
}

// failed rolls back because of why, and words err: applied it was not, unless fn has ended the transaction.
func (s *session) failed(op string, err, why error) error {
	if ended, _ := s.tie.Rollback(why); ended {
		return &opError{op, fmt.Errorf("%w: %w", errEnded, err), cas.Uncertain}
	}
	return notApplied(op, err)
}

// restoreTimeout bounds the statement that sets a connection's settings back.
const restoreTimeout = 5 * time.Second

// end rolls back unless that is over, and returns the connection to the pool: with its settings
// restored, or not at all.
func (s *session) end(ctx context.Context) {
	clean := false
	if s.tie != nil {
		_, _ = s.tie.Rollback(nil)
		defer s.tie.End()
		clean = s.tie.Clean()
	}
	if s.restore != "" {
		bad := !clean
		if clean {
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
