package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// bound is a transaction's tie to its context. database/sql rolls a transaction back when its context
// ends, and afterwards it can't be told from one that fn has committed: both are sql.ErrTxDone. So the
// transaction is begun under a context that doesn't end with the caller's, and rolled back here.
type bound struct {
	end    context.CancelFunc // of the context that the transaction was begun under
	unbind func() bool
	done   chan struct{} // closed when the caller's context has ended, and that was seen to
	ours   bool          // read once done is closed: the transaction was open until then
}

// rollbackTimeout bounds a rollback of which the server does not say that it has arrived.
const rollbackTimeout = 5 * time.Second

// beginBound begins a transaction that is rolled back when ctx ends, until release.
func beginBound(ctx context.Context, conn *sql.Conn, opts *sql.TxOptions) (*sql.Tx, *bound, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end) // BEGIN itself ends with ctx
	tx, err := conn.BeginTx(life, opts)
	if !stop() {
		if err == nil {
			_ = tx.Rollback() // or database/sql did, as life has ended
		}
		end()
		return nil, nil, fmt.Errorf("%w (%v)", ctx.Err(), err)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	b := &bound{end: end, done: make(chan struct{})}
	b.unbind = context.AfterFunc(ctx, func() {
		defer close(b.done)
		timeout := time.AfterFunc(rollbackTimeout, end)
		defer timeout.Stop()
		b.ours = !errors.Is(tx.Rollback(), sql.ErrTxDone)
	})
	return tx, b, nil
}

// release unties them, and reports whether the transaction was rolled back because ctx has ended. Call
// it again and it says the same.
func (b *bound) release() (rolledBack bool) {
	if b.unbind() {
		b.unbind = func() bool { return true }
		return false
	}
	<-b.done
	return b.ours
}
