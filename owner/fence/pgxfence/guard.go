package pgxfence

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/boundtx"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Guard makes tx fail unless tok is what was sealed: *fence.FencedError, fence.ErrNotSealed,
// *fence.GroupError. Make it the last statement before the commit, as Tx does. Then a newer owner's
// Seal waits only for the commit, and not for what you do between: what the guard locks stays locked until tx
// ends. What is written after the guard is guarded as well. If tx's snapshot is from before the
// seal the guard may pass all the same: begin after Seal has returned.
//
// On error tx has been rolled back, and nothing was applied; unless it had ended before, which is Uncertain.
// Don't roll tx back to a savepoint from before the guard: that gives up its lock. Config.Idle and
// Config.Terminate are not seen to.
func (f *Fence) Guard(ctx context.Context, tx pgx.Tx, tok shard.Token) error {
	err := fence.CheckToken(tok)
	if err == nil {
		args, _ := f.held(tok)
		err = f.pass(tok, tx.QueryRow(ctx, f.stmt.Guard, args...))
	}
	ended := hasEnded(tx, err)
	if err == nil && !ended {
		return nil
	}
	// Roll back before asking why: with one connection in the pool there is no other to ask on.
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(done) // if it does not reach the server, pgx has closed the connection
	if err != nil && !errors.Is(err, fence.ErrToken) {
		err = f.explain(ctx, tok, notApplied(opGuard, err))
	}
	if ended {
		return &opError{opGuard, errors.Join(errEndedBefore, err), cas.Uncertain}
	}
	return &boundtx.GivenUp{Tx: tx, Err: err} // whoever has begun tx finds it ended, and wants to know by whom
}

// What was done before the guard is not known to it.
var errEndedBefore = errors.New("the transaction had ended before its guard")

// hasEnded reports whether tx had ended before the guard, of which err came. A connection that tx has given back is not looked at.
func hasEnded(tx pgx.Tx, err error) bool {
	if errors.Is(err, pgx.ErrTxClosed) {
		return true
	}
	conn := tx.Conn()
	return conn != nil && !conn.IsClosed() && conn.PgConn().TxStatus() == 'I'
}

// held are the parameters of tok's guard, and whether it may pass the short way, and find nothing.
func (f *Fence) held(tok shard.Token) (args []any, short bool) {
	return f.passed.Args(tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch))
}

// pass reads the result of a guard.
func (f *Fence) pass(tok shard.Token, found pgx.Row) error {
	var generation int64
	switch err := found.Scan(&generation); {
	case errors.Is(err, pgx.ErrNoRows): // as before
		return nil
	case err != nil:
		return err
	}
	f.passed.Note(tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch), generation)
	return nil
}

// passNext is pass for the next result of a batch. A guard that was to pass the short way is not read, which saves time on each write. If it
// has found something after all, what was remembered is forgotten, and the next guard is read.
func (f *Fence) passNext(tok shard.Token, short bool, results pgx.BatchResults) error {
	if !short {
		return f.pass(tok, results.QueryRow())
	}
	tag, err := results.Exec()
	if err == nil && tag.RowsAffected() > 0 {
		f.passed.Forget(tok.Group, tok.Shard)
	}
	return err
}

// row is what the database knows of one shard.
type row struct {
	fence.State
	wanted shard.Epoch // without the floor of SealAll, which State has
	next   int64       // the position of the stream that was asked for, or -1
}

// state reads tok's row, in no transaction, and in one statement, so that its parts fit together.
// The stream may be "".
func (f *Fence) state(ctx context.Context, tok shard.Token, stream string) (r row, err error) {
	var epoch, wanted, floor int64
	err = f.pool.QueryRow(ctx, f.stmt.State, dialect.StateArgs(tok.Group, tok.Shard, stream)...).
		Scan(&r.GroupID, &epoch, &wanted, &floor, &r.next)
	r.Epoch, r.Wanted, r.wanted = shard.Epoch(epoch), shard.Epoch(max(wanted, floor)), shard.Epoch(wanted)
	return r, err
}

// explainTimeout bounds the question why a guard failed. It matters if every connection of the
// pool is in use and stays so: then the answer is the guard's own error.
const explainTimeout = 5 * time.Second

// explain turns the error of a refused guard into what it means, by reading the row again, outside of
// the transaction, which answers no more. It must not be asked about what is uncertain.
func (f *Fence) explain(ctx context.Context, tok shard.Token, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	r, err := f.state(ctx, tok, "")
	if err != nil {
		return cause
	}
	if err := r.Refuse(tok); err != nil {
		return err
	}
	if e, ok := cause.(*opError); ok && e.op == opGuard && dialect.GuardFoundNoRow(e.err) {
		return fence.ErrNotSealed // it was not when the guard ran, and is by now
	}
	return cause
}
