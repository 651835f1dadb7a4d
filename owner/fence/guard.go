package fence

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tenure-go/tenure/shard"
)

// Guard makes tx fail unless tok is what was sealed: *FencedError, ErrNotSealed, *GroupError. Make
// it the last statement before the commit, as Tx does. Then a newer owner's Seal waits only for
// the commit, and not for what you do between: the row stays locked until tx ends. What is written
// after the guard is guarded as well.
//
// On error tx has been rolled back, so that a commit can't follow, and nothing was applied.
// Don't roll tx back to a savepoint from before the guard: that gives up its lock. On MySQL stop at
// the first error 1213 or 1205: the server may have rolled back, and commits what follows at once;
// Tx sees to that.
func (f *SQL) Guard(ctx context.Context, tx *sql.Tx, tok shard.Token) error {
	err := CheckToken(tok)
	if err == nil {
		if err = f.guard(ctx, tx, tok); err == nil {
			return nil
		}
	}
	// Roll back before asking why: with one connection in the pool there is no other to ask on.
	_ = tx.Rollback() // it never commits, whether or not this reaches the server
	if errors.Is(err, ErrToken) {
		return err
	}
	return f.explain(ctx, tok, "guard", err)
}

func (f *SQL) guard(ctx context.Context, tx *sql.Tx, tok shard.Token) error {
	var n int64
	return tx.QueryRowContext(ctx, f.stmt.Guard, f.d.GuardArgs(tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch))...).Scan(&n)
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
	return cause
}
