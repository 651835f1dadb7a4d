package fence

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/shard"
)

// guardStatement fails in the server unless exactly one row is held. A row count that the client
// looks at would come too late wherever a COMMIT is already on its way behind the statement. The
// dialects differ in how a query can be made to fail without a function being installed:
//
//   - Postgres divides by the count. The lock must be FOR SHARE: FOR KEY SHARE does not conflict with
//     an update of a column that is no key, so a seal would not wait for it; and no lock at all lets
//     a write pass that was checked before the seal and commits after it. An aggregate cannot be
//     locked, so the locked row sits in a subquery, which Postgres never merges into the outer one.
//     When a seal commits while the guard waits, the row is checked again as it is then.
//   - MySQL gives NULL for a division by zero, but an integer overflow is an error in every SQL mode.
//     A locking read sees the row as it is now, whatever the transaction's snapshot says.
//   - SQLite documents that abs of the least integer fails. No lock is needed: the transaction has
//     the database's one write lock by now, or else has written nothing.
func guardStatement(d dialect.Dialect) string {
	const why = `/* tenure: an error here means that this owner is fenced */ `
	switch d {
	case dialect.Postgres:
		return why + `SELECT 1 / count(*) FROM (SELECT 1 FROM {fence} WHERE {held} FOR SHARE) AS held`
	case dialect.MySQL:
		return why + `SELECT 9223372036854775807 + (1 - COUNT(*)) FROM {fence} WHERE {held} LOCK IN SHARE MODE`
	default:
		return why + `SELECT abs(-9223372036854775807 - (1 - count(*))) FROM {fence} WHERE {held}`
	}
}

// heldArgs are the parameters of {held}.
func heldArgs(tok shard.Token) []any {
	return []any{
		tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch),
		tok.Group, tok.Shard, int64(tok.Epoch),
	}
}

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
	err := checkToken(tok)
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
	return tx.QueryRowContext(ctx, f.stmt.guard, heldArgs(tok)...).Scan(&n)
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
