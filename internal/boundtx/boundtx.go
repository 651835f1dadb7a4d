// Package boundtx ties a database/sql transaction to its caller's context. database/sql would do that by itself, but what it
// rolls back when the context ends can't be told from what the caller's function has committed: both are
// sql.ErrTxDone afterwards. So a transaction is begun under a context that outlives the caller's, and rolled back here.
package boundtx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// RollbackTimeout bounds a rollback of which the server does not say that it has arrived.
const RollbackTimeout = 5 * time.Second

// Tie is between a transaction and a context. One goroutine uses it.
type Tie struct {
	end    context.CancelFunc // of the context that the transaction was begun under
	untie  func() bool
	broken chan struct{} // closed when the caller's context has ended, and that was seen to
	ours   bool          // read once broken is closed: the transaction was open until then
}

// Begin begins a transaction that is rolled back when ctx ends, until Release. Its own context ends with End, which has to be
// called in the end. An error leaves nothing open.
func Begin(ctx context.Context, conn *sql.Conn, opts *sql.TxOptions) (*sql.Tx, *Tie, error) {
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
	t := &Tie{end: end, broken: make(chan struct{})}
	t.untie = context.AfterFunc(ctx, func() {
		defer close(t.broken)
		timeout := time.AfterFunc(RollbackTimeout, end)
		defer timeout.Stop()
		t.ours = !errors.Is(tx.Rollback(), sql.ErrTxDone)
	})
	return tx, t, nil
}

// Release unties them, and reports whether the transaction was rolled back because ctx has ended. Called again it says
// the same.
func (t *Tie) Release() (rolledBack bool) {
	if t.untie() {
		t.untie = func() bool { return true }
		return false
	}
	<-t.broken
	return t.ours
}

// End ends the context that the transaction was begun under, and whatever of the transaction still runs.
func (t *Tie) End() { t.end() }
