package pgxidem

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/internal/dialect"
)

// commit is an idem.Commit. While Run runs, *tx is its transaction.
func (s *Store) commit(tx *pgx.Tx) idem.Commit {
	return func(ctx context.Context, t idem.Txn) (int64, error) {
		w := &work{s: s, t: t, tx: tx, at: t.Rev}
		var hold string
		if t.Hold {
			var err error
			if hold, err = w.holding(ctx); err != nil {
				return 0, err
			}
		}
		var err error
		if s.c.Fence != nil {
			err = s.c.Fence.Tx(ctx, t.Token, func(tx pgx.Tx) error { return w.fenced(ctx, tx, hold) })
		} else {
			err = w.run(ctx, hold)
		}
		switch {
		case err == nil:
			return w.rev, nil
		case w.conflict:
			return 0, w.raced(ctx, err)
		}
		return 0, err
	}
}

// work is what a transaction does.
type work struct {
	s        *Store
	t        idem.Txn
	tx       *pgx.Tx
	at       int64 // the revision to write over
	rev      int64 // what the record will be at
	conflict bool  // somebody else has the record
}

// holding looks at the record, and returns the statement that makes it this transaction's, with no parameters,
// so that it can travel with the BEGIN. It fails if the record is not as it was seen.
func (w *work) holding(ctx context.Context) (string, error) {
	if w.t.Rev != 0 {
		return "select 1 / count(*) from (" + inline(w.s.stmt.Hold, w.t.ID, w.t.Rev) + ") as held", nil
	}
	row, err := w.s.look(ctx, w.t.ID)
	if err != nil {
		return "", err
	}
	if row.Rev != 0 && !row.forgotten {
		return "", &idem.ConflictError{Current: w.s.present(ctx, w.t.ID, row)}
	}
	// Nobody sees this row before the commit, which writes it anew.
	w.at = revision()
	args := w.s.args(w.t.ID, w.at, idem.Put{Forget: time.Second})
	stmt := inline(w.s.stmt.Insert, args...) + " on conflict (id) do nothing"
	if row.forgotten {
		stmt = inline(w.s.stmt.Revive, append(args, row.Rev)...)
	}
	return "with put as (" + stmt + " returning 1) select 1 / count(*) from put", nil
}

// write writes what Run has returned.
func (w *work) write() (args []any, err error) {
	p, err := w.t.Run()
	if err != nil {
		return nil, err
	}
	w.rev = revision()
	return append(w.s.args(w.t.ID, w.rev, p), w.at), nil
}

// fenced is the body of the fence's transaction, which guards and commits after it.
func (w *work) fenced(ctx context.Context, tx pgx.Tx, hold string) error {
	*w.tx = tx
	if hold != "" {
		if _, err := tx.Exec(ctx, hold); err != nil {
			w.note(err)
			return err
		}
	}
	args, err := w.write()
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, w.s.stmt.Update, args...)
	if err == nil && tag.RowsAffected() != 1 {
		w.conflict = true
		return errConflict
	}
	w.note(err)
	return err
}

var (
	errConflict = errors.New("the record is another's")
	errEnded    = errors.New("the function ended the transaction, which only this package may")
	errFailed   = errors.New("the function went on after a statement had failed, which fails the transaction")
)

// note notes if a statement of the record's failed because of somebody else's.
func (w *work) note(err error) {
	switch {
	case err == nil:
	case divided(err), dialect.Postgres.FaultOf(err) == dialect.Passing, dialect.Postgres.FaultOf(err) == dialect.Duplicate:
		w.conflict = true
	}
}

// raced is the error of a transaction that was rolled back because of another's.
func (w *work) raced(ctx context.Context, cause error) error {
	err := w.s.conflict(ctx, w.t.ID)
	if conflict, ok := err.(*idem.ConflictError); ok && conflict.Current.Rev == w.t.Rev && w.t.Rev != 0 {
		return cause // the record is still as it was: a deadlock, or a serialization failure
	}
	return err
}

// run runs Run in a transaction without a fence. BEGIN and the claim are one round trip, the record and
// COMMIT another.
func (w *work) run(ctx context.Context, hold string) error {
	conn, err := w.s.pool.Acquire(ctx)
	if err != nil {
		return notApplied("begin", err)
	}
	defer release(ctx, conn) // also if Run panics
	begin := w.s.begin()
	if hold != "" {
		begin += "; " + hold
	}
	tx, err := conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		w.note(err) // pgx has closed the connection; but a claim that loses a race is rare
		return notApplied("begin", err)
	}
	*w.tx = tx
	args, err := w.write()
	switch status := conn.Conn().PgConn().TxStatus(); {
	case status == 'I' && !conn.Conn().IsClosed():
		return &opError{"transaction", errors.Join(errEnded, err), cas.Uncertain}
	case err != nil:
		return notApplied("transaction", err)
	case status == 'E':
		return notApplied("transaction", errFailed)
	case ctx.Err() != nil:
		return notApplied("commit", context.Cause(ctx))
	}
	return w.commit(ctx, conn.Conn(), args)
}

func (s *Store) begin() string {
	begin := "begin"
	if s.c.Tx.IsoLevel != "" {
		begin += " isolation level " + string(s.c.Tx.IsoLevel)
	}
	return begin
}

func (w *work) commit(ctx context.Context, conn *pgx.Conn, args []any) error {
	b := &pgx.Batch{}
	b.Queue(w.s.stmt.Must, args...)
	b.Queue("commit")
	results := conn.SendBatch(ctx, b)
	defer results.Close() // it has nothing to add
	if _, err := results.Exec(); err != nil {
		w.note(err)
		return written("writing the record", err)
	}
	tag, err := results.Exec()
	switch {
	case err != nil:
		w.note(err)
		return written("commit", err)
	case tag.String() != "COMMIT":
		return notApplied("commit", pgx.ErrTxCommitRollback)
	}
	return nil
}

// rollbackTimeout bounds a rollback of which the server does not say that it has arrived.
const rollbackTimeout = 5 * time.Second

// release gives conn back, rolled back if it is in a transaction still.
func release(ctx context.Context, conn *pgxpool.Conn) {
	defer conn.Release() // which closes it if that did not help
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback")
}
