package sqlidem

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/internal/dialect"
)

// commit is an idem.Commit. While Run runs, *tx is its transaction.
func (s *Store) commit(tx **sql.Tx) idem.Commit {
	return func(ctx context.Context, t idem.Txn) (int64, error) {
		w := &work{s: s, t: t}
		body := func(in *sql.Tx) error {
			*tx = in
			return w.do(ctx, in)
		}
		var err error
		if s.c.Fence != nil {
			err = s.c.Fence.Tx(ctx, t.Token, body)
		} else {
			err = s.run(ctx, body)
		}
		if err == nil {
			return w.rev, nil
		}
		if w.conflict {
			return 0, s.raced(ctx, t, err)
		}
		return 0, err
	}
}

// raced is the error of a transaction that was rolled back because of another's.
func (s *Store) raced(ctx context.Context, t idem.Txn, cause error) error {
	err := s.conflict(ctx, t.ID)
	if conflict, ok := err.(*idem.ConflictError); ok && conflict.Current.Rev == t.Rev && t.Rev != 0 {
		return cause // the record is still as it was: a deadlock, or a serialization failure
	}
	return err
}

// work is what a transaction does.
type work struct {
	s        *Store
	t        idem.Txn
	rev      int64 // what the record will be at
	conflict bool  // somebody else has the record
}

func (w *work) do(ctx context.Context, tx *sql.Tx) error {
	at := w.t.Rev
	if w.t.Hold {
		var err error
		if at, err = w.hold(ctx, tx); err != nil {
			return err
		}
	}
	p, err := w.t.Run()
	if err != nil {
		return err
	}
	w.rev = revision()
	n, err := w.exec(ctx, tx, w.s.stmt.Update, append(w.s.args(w.t.ID, w.rev, p), at)...)
	if err != nil {
		return err
	}
	if n != 1 {
		w.conflict = true
		return errConflict
	}
	return nil
}

var errConflict = errors.New("the record is another's")

// hold makes the record this transaction's: it locks the row, or inserts one that nobody sees before the
// commit. Who else tries waits for that, and then finds the result.
func (w *work) hold(ctx context.Context, tx *sql.Tx) (at int64, err error) {
	if w.t.Rev != 0 {
		err := tx.QueryRowContext(ctx, w.s.stmt.Hold, w.t.ID, w.t.Rev).Scan(&at)
		if err != nil {
			w.conflict = errors.Is(err, sql.ErrNoRows) || w.s.d.FaultOf(err) == dialect.Passing
		}
		return at, err
	}
	row, err := w.s.look(ctx, tx, w.t.ID)
	if err != nil {
		return 0, fmt.Errorf("reading a record%s: %w", w.s.hint(err), err)
	}
	at = revision()
	args := w.s.args(w.t.ID, at, idem.Put{Forget: placeholder})
	stmt := w.s.stmt.Insert
	if row.forgotten {
		stmt, args = w.s.stmt.Revive, append(args, row.Rev)
	} else if row.Rev != 0 {
		w.conflict = true
		return 0, errConflict
	}
	n, err := w.exec(ctx, tx, stmt, args...)
	if err == nil && n != 1 {
		w.conflict, err = true, errConflict
	}
	return at, err
}

// placeholder is how long a held row would be kept, if it could ever be seen.
const placeholder = 1e9

// exec runs a statement of the record's, and notes if it failed because of somebody else's.
func (w *work) exec(ctx context.Context, tx *sql.Tx, stmt string, args ...any) (int64, error) {
	res, err := tx.ExecContext(ctx, stmt, args...)
	if err != nil {
		switch w.s.d.FaultOf(err) {
		case dialect.Passing, dialect.Duplicate:
			w.conflict = true
		}
		return 0, err
	}
	return res.RowsAffected()
}
