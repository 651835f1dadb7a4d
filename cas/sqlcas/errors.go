package sqlcas

import (
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas/internal/attempt"
	"github.com/tenure-go/tenure/cas/sqlcas/internal/row"
	"github.com/tenure-go/tenure/internal/dialect"
)

// ErrMissing: there is no row of that key, at any version. Nothing was changed.
var ErrMissing error = &refusal{"no such row"}

// ErrExists: an insert found a row of that key. Nothing was changed.
var ErrExists error = &refusal{"the row exists"}

type refusal struct{ msg string }

func (r *refusal) Error() string        { return "sqlcas: " + r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

// ConflictError: the row has another version than the one seen. Nothing was changed. Read the row again,
// and decide again.
type ConflictError struct {
	Table string
	Key   []any
	Seen  int64
	// Current is the version that was there when it was looked at after the refusal; by now there may be
	// a later one. It equals Seen if the row was deleted and inserted again meanwhile.
	Current int64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("sqlcas: conflict on %s %v: version %d was seen, and %d is there", e.Table, e.Key, e.Seen, e.Current)
}

// Outcome is NotApplied.
func (e *ConflictError) Outcome() cas.Outcome { return cas.NotApplied }

// refused is the error of a result that changed nothing, or nil.
func refused(r row.Result, table string, key []any, seen int64) error {
	switch r.Fate {
	case row.Missing:
		return fmt.Errorf("%w: %s %v", ErrMissing, table, key)
	case row.Exists:
		return fmt.Errorf("%w: %s %v, at version %d", ErrExists, table, key, r.Version)
	case row.Conflict:
		return &ConflictError{Table: table, Key: key, Seen: seen, Current: r.Version}
	}
	return nil
}

// failed says of a statement whether it was applied, as far as the database's error does. In a transaction
// that is of little interest: the transaction decides.
func failed(d Dialect, op, table string, key []any, err error) error {
	outcome := cas.Uncertain
	if errors.Is(err, row.ErrInput) || d.FaultOf(err) != dialect.NoWord {
		outcome = cas.NotApplied
	}
	return &attempt.Error{Package: "sqlcas", Op: fmt.Sprintf("%s %s %v", op, table, key), Err: err, Out: outcome}
}
