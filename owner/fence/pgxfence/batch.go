package pgxfence

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Batch runs b's statements as one guarded transaction in one round trip: BEGIN, the statements, the
// guard and COMMIT are sent together. nil means that it was applied under a token that was the
// sealed one at the commit. (On a connection that has not run such statements before, pgx
// prepares them first, which is one round trip more.)
//
// A statement that fails, or a refused guard, leaves nothing applied, and the error is as Tx's, with
// cas.ErrUncertain for what the reply was lost of. Callbacks (pgx.QueuedQuery.Exec, Query, QueryRow)
// run as their results come in, before it is known what becomes of the commit: believe what they got
// once Batch has returned nil. They come too late to prevent it: if one fails and the commit does not,
// its error comes back wrapped with Outcome Applied.
//
// b holds one statement per query, and none that begins or ends a transaction. The caller keeps b,
// which must not be sent again.
func (f *Fence) Batch(ctx context.Context, tok shard.Token, b *pgx.Batch) error {
	if err := fence.CheckToken(tok); err != nil {
		return err
	}
	rows, err := inspect(b)
	if err != nil {
		return err
	}
	l, err := f.settings(ctx)
	if err != nil {
		return err
	}
	l.idle = "" // the server never waits for a next command
	if !rows {
		l.read = "" // nor for results to be read, which fit into the connection's buffers
	}
	opening := f.opening(l, tok)
	before := len(opening)
	whole := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, before+b.Len()+2)}
	for _, s := range opening {
		whole.Queue(s)
	}
	whole.QueuedQueries = append(whole.QueuedQueries, b.QueuedQueries...)
	guard, short := f.held(tok)
	whole.Queue(f.stmt.Guard, guard...)
	whole.Queue("commit")

	r := f.sendBatch(ctx, whole, tok, short)
	switch {
	case !r.refused:
		return r.err
	case r.at < before: // or nothing was sent
		return notApplied("begin batch", r.err)
	case r.at < whole.Len()-2:
		q := whole.QueuedQueries[r.at]
		err := notApplied(fmt.Sprintf("statement %d of the batch", r.at-before+1), r.err)
		if q.SQL != f.stmt.MustAdvance {
			return err
		}
		err = f.explainAdvance(ctx, tok, q.Arguments, err)
		f.giveUp(ctx, tok, err)
		return err
	case r.at == whole.Len()-2:
		err = f.explain(ctx, tok, notApplied(opGuard, r.err))
	default:
		err = f.explain(ctx, tok, notApplied(opCommit, r.err))
	}
	f.giveUp(ctx, tok, err)
	return err
}

// batchResult is how a batch that ends in COMMIT came out.
type batchResult struct {
	refused bool // by the database, at query at; and err is what it said
	at      int
	err     error // otherwise as it is to be reported
}

// sendBatch sends b, which ends in tok's guard, which may pass the short way, and COMMIT.
func (f *Fence) sendBatch(ctx context.Context, b *pgx.Batch, tok shard.Token, short bool) batchResult {
	conn, err := f.pool.Acquire(ctx)
	if err != nil {
		return batchResult{err: notApplied("begin", err)}
	}
	defer f.release(ctx, conn) // also if a callback panics
	results := &heard{BatchResults: conn.SendBatch(ctx, b), conn: conn.Conn()}
	defer results.Close() // it has nothing to add
	guard, commit := b.Len()-2, b.Len()-1
	var late error // of a callback
	for at, q := range b.QueuedQueries[:commit] {
		if at == guard {
			results.hear(f.passNext(tok, short, results.BatchResults))
		} else if err := results.next(q); late == nil {
			late = err
		}
		switch err := results.err; {
		case err == nil:
		case refusedBefore(err):
			return batchResult{refused: true, at: at, err: err}
		default:
			return batchResult{err: uncertain(opCommit, err)}
		}
	}
	tag, err := results.Exec()
	switch {
	case err == nil && tag.String() != "COMMIT":
		return batchResult{refused: true, at: commit, err: pgx.ErrTxCommitRollback}
	case err == nil && late != nil:
		return batchResult{err: &opError{"a callback failed, too late to prevent the commit", late, cas.Applied}}
	case err == nil:
		return batchResult{}
	case refusedCommit(err):
		return batchResult{refused: true, at: commit, err: err}
	}
	return batchResult{err: uncertain(opCommit, err)}
}
