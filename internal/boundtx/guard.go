package boundtx

import (
	"context"
	"database/sql"
	"errors"

	"github.com/tenure-go/tenure/internal/dialect"
)

// GivenUp is the error of a guard that has rolled back the transaction in which it was refused. An error that says
// "not applied" is no proof of that: it may be about anything else that the function did.
type GivenUp struct {
	Tx  any // a *sql.Tx, a pgx.Tx
	Err error
}

func (e *GivenUp) Error() string { return e.Err.Error() }
func (e *GivenUp) Unwrap() error { return e.Err }

// Vouches reports whether err says that tx was rolled back by a guard, and so was not applied.
func Vouches(err error, tx any) bool {
	e, ok := errors.AsType[*GivenUp](err)
	return ok && e.Tx == tx
}

func gaveUp(err error, tx *sql.Tx) bool { return Vouches(err, tx) }

// GiveUp rolls back a transaction because of why, for a guard, which can't know who began it. It reports whether it had been
// ended before. On MySQL only the transactions of Begin can be told from what has replaced them, so there proven is false
// for any other: nothing is known.
func GiveUp(d dialect.Dialect, tx *sql.Tx, why error) (ended, proven bool) {
	ctx, cancel := context.WithTimeout(context.Background(), RollbackTimeout)
	defer cancel()
	replaced := hasEnded(ctx, d, tx) && !d.RollsBack(why)
	err := rollback(d, tx, cancel)
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return true, false
	case d == dialect.MySQL:
		return false, !replaced
	case d == dialect.SQLite && d.NoTransaction(err) && !d.RollsBack(why):
		replaced = true
	}
	return replaced, !replaced
}
