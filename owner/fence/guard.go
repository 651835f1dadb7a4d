package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/boundtx"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/shard"
)

// Guard makes tx fail unless tok is what was sealed: *FencedError, ErrNotSealed, *GroupError. Make
// it the last statement before the commit, as Tx does. Then a newer owner's Seal waits only for
// the commit, and not for what you do between: what the guard locks stays locked until tx ends. What is written
// after the guard is guarded as well. If tx's snapshot is from before the seal the guard may pass all the
// same: begin after Seal has returned.
//
// On error tx has been rolled back, so that a commit can't follow, and nothing was applied; unless tx had ended before,
// which is Uncertain, and which on MySQL is seen only of a Commit or Rollback.
// Don't roll tx back to a savepoint from before the guard: that gives up its lock. On MySQL stop at
// the first error 1213 or 1205: the server may have rolled back, and commits what follows at once;
// Tx sees to that.
func (f *SQL) Guard(ctx context.Context, tx *sql.Tx, tok shard.Token) error {
	err := CheckToken(tok)
	if err == nil {
		if _, err = f.guard(ctx, tx, tok, false); err == nil {
			return nil
		}
	}
	// Roll back before asking why: with one connection in the pool there is no other to ask on.
	ended, proven := boundtx.GiveUp(f.d, tx, err)
	if !errors.Is(err, ErrToken) {
		err = f.explain(ctx, tok, opGuard, err)
	}
	switch {
	case ended:
		return &opError{opGuard, fmt.Errorf("%w: %w", errEndedBefore, err), cas.Uncertain}
	case proven:
		return &boundtx.GivenUp{Tx: tx, Err: err} // whoever has begun tx finds it ended, and wants to know by whom
	}
	return err
}

// What was done before the guard is not known to it.
var errEndedBefore = errors.New("the transaction had ended before its guard")

// guard fails unless tok is what was sealed. inside is false if tx was marked, and the transaction of that has ended.
func (f *SQL) guard(ctx context.Context, tx *sql.Tx, tok shard.Token, marked bool) (inside bool, err error) {
	if f.d != dialect.Postgres {
		var n int64
		return true, tx.QueryRowContext(ctx, f.stmt.Guard, dialect.GuardArgs(tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch))...).Scan(&n)
	}
	var generation int64
	stmt, inside, into := f.stmt.Guard, true, []any{&generation}
	if marked {
		stmt, into = f.stmt.GuardMarked, []any{&generation, &inside}
	}
	args, _ := f.passed.Args(tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch))
	switch err := tx.QueryRowContext(ctx, stmt, args...).Scan(into...); {
	case errors.Is(err, sql.ErrNoRows): // as before
		return true, nil
	case err != nil:
		return true, err
	}
	f.passed.Note(tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch), generation)
	return inside, nil
}

// explainTimeout bounds the question why a guard failed. It matters if every connection of the
// pool is in use and stays so: then the answer is the guard's own error.
const explainTimeout = 5 * time.Second

// explain turns the error of a guard into what it means. Databases say it with errors that say
// something else (a division by zero; a serialization failure at the stricter levels), and a
// transaction that has failed answers no more. So the row is read again, outside of it.
func (f *SQL) explain(ctx context.Context, tok shard.Token, op string, cause error) error {
	cause = notApplied(op, cause)
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	s, err := f.state(ctx, tok, "")
	if err != nil {
		return cause
	}
	if err := s.refuse(tok); err != nil {
		return err
	}
	if op == opGuard && dialect.GuardFoundNoRow(cause) {
		return ErrNotSealed // it was not when the guard ran, and is by now
	}
	return cause
}
