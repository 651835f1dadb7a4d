package sqlcas

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// bound ties a transaction to its caller's context. database/sql would do that by itself, but what it rolls
// back then can't be told from what the function has committed: both are sql.ErrTxDone. So a transaction
// is begun under a context that outlives the caller's, and rolled back here.
type bound struct {
	cut    context.CancelFunc // ends the context that the transaction was begun under
	untie  func() bool
	broken chan struct{} // closed when the caller's context has ended and that was acted on
	ours   bool          // valid once broken is closed: the transaction was open until then
}

// rollbackTimeout bounds a rollback to which the server says nothing.
const rollbackTimeout = 5 * time.Second

// beginBound begins a transaction that is rolled back when ctx ends, until release.
func beginBound(ctx context.Context, conn *sql.Conn, opts sql.TxOptions) (*sql.Tx, *bound, error) {
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cut) // BEGIN itself ends with ctx
	tx, err := conn.BeginTx(life, &opts)
	if !stop() {
		if err == nil {
			_ = tx.Rollback() // unless database/sql has, as life is over
		}
		cut()
		return nil, nil, fmt.Errorf("%w (%v)", context.Cause(ctx), err)
	}
	if err != nil {
		cut()
		return nil, nil, err
	}
	b := &bound{cut: cut, broken: make(chan struct{})}
	b.untie = context.AfterFunc(ctx, func() {
		defer close(b.broken)
		timeout := time.AfterFunc(rollbackTimeout, cut)
		defer timeout.Stop()
		b.ours = !errors.Is(tx.Rollback(), sql.ErrTxDone)
	})
	return tx, b, nil
}

// release unties them, and reports whether the transaction was rolled back because the context has ended.
// Called again it says the same.
func (b *bound) release() (rolledBack bool) {
	if b.untie() {
		b.untie = func() bool { return true }
		return false
	}
	<-b.broken
	return b.ours
}
