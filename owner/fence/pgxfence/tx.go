package pgxfence

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Where a guarded transaction can stop. The words are part of error messages.
const (
	opFn     = "transaction function"
	opGuard  = "guard"
	opCommit = "commit"
)

// Tx begins, runs fn once, guards, commits; the last two in one round trip. nil means that it was
// applied under a token that was the sealed one at the commit.
//
// fn's error rolls back and comes back wrapped: Is and As work as before, and its Outcome is
// NotApplied. A panic in fn rolls back and goes on. A refused guard is *fence.FencedError,
// fence.ErrNotSealed or *fence.GroupError, and nothing was applied. A commit that failed is
// cas.ErrUncertain, because its reply may be what was lost, unless the database has said that it
// refused; after it, end the tenure and load state again, or find out by an operation id. Tx never
// runs fn a second time.
//
// ctx bounds the transaction: it is not committed once ctx has ended. As everywhere in pgx, what runs
// when a context ends loses its connection, and a transaction in which nothing runs stays open until
// fn returns. fn's tx begins savepoints, but does not commit or roll back: to give up, return an error.
// fn must close its rows, and not keep tx. If fn sends a COMMIT of its own all the same, Tx fails, and the
// outcome is Uncertain.
func (f *Fence) Tx(ctx context.Context, tok shard.Token, fn func(pgx.Tx) error) error {
	if err := fence.CheckToken(tok); err != nil {
		return err
	}
	l, err := f.settings(ctx)
	if err != nil {
		return err
	}
	refusedBy, err := f.runGuarded(ctx, strings.Join(f.opening(l, tok), "; "), tok, fn)
	if refusedBy == "" {
		return err
	}
	// Asked when the connection is back in the pool, which may hold no other.
	err = f.explain(ctx, tok, notApplied(refusedBy, err))
	f.giveUp(ctx, tok, err)
	return err
}

// runGuarded returns its error as it is to be reported, or, if the database has refused guard or
// commit, which of them, and what it said.
func (f *Fence) runGuarded(ctx context.Context, begin string, tok shard.Token, fn func(pgx.Tx) error) (refusedBy string, err error) {
	conn, err := f.pool.Acquire(ctx)
	if err != nil {
		return "", notApplied("begin", err)
	}
	defer f.release(ctx, conn) // also if fn panics
	tx, err := conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return "", notApplied("begin", err)
	}
	g := &guardedTx{Tx: tx, state: new(txState)}
	defer func() { g.state.over = true }()
	err = fn(g)
	switch status := conn.Conn().PgConn().TxStatus(); {
	case status == 'I' && !conn.Conn().IsClosed():
		return "", &opError{opFn, errors.Join(errEnded, err), cas.Uncertain}
	case err != nil:
		return "", notApplied(opFn, err)
	case g.state.ends:
		return "", notApplied(opFn, errEnds)
	case status == 'E':
		return opFn, errFailed
	}
	return f.commit(ctx, conn.Conn(), tok)
}

// What fn did that it must not.
var (
	errEnded  = errors.New("it ended the transaction, which only Tx may")
	errEnds   = errors.New("it called Commit or Rollback, which did nothing: only Tx ends the transaction; to give up, return an error")
	errFailed = errors.New("it went on after a statement had failed, which fails the transaction")
)

// commit guards and commits in one round trip. If the guard fails, the server skips the COMMIT.
func (f *Fence) commit(ctx context.Context, conn *pgx.Conn, tok shard.Token) (refusedBy string, err error) {
	b := &pgx.Batch{}
	args, short := f.held(tok)
	b.Queue(f.stmt.Guard, args...)
	b.Queue("commit")
	results := conn.SendBatch(ctx, b)
	defer results.Close() // it has nothing to add
	if err := f.passNext(tok, short, results); err != nil {
		if refusedBefore(err) {
			return opGuard, err
		}
		return "", uncertain(opCommit, err)
	}
	tag, err := results.Exec()
	switch {
	case err == nil && tag.String() == "COMMIT":
		return "", nil
	case err == nil:
		return opCommit, pgx.ErrTxCommitRollback
	case refusedCommit(err):
		return opCommit, err
	}
	return "", uncertain(opCommit, err)
}

// rollbackTimeout bounds a rollback of which the server does not say that it has arrived.
const rollbackTimeout = 5 * time.Second

// release gives conn back, rolled back if it is in a transaction still.
func (f *Fence) release(ctx context.Context, conn *pgxpool.Conn) {
	defer conn.Release() // which closes it if that did not help
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback")
}
