// Package boundtx ties a database/sql transaction to its caller's context, bounds what ends it, and finds out whether the
// caller's function has ended it instead.
//
// database/sql would roll back by itself when the context ends, but what it rolls back can't be told from what the caller's
// function has committed: both are sql.ErrTxDone afterwards. So a transaction is begun under a context that outlives the
// caller's, and ended here.
//
// A function that has ended the transaction, by Commit or by text (COMMIT, DDL on MySQL), may have applied what it then
// says has failed. So before a rollback the server is asked whether there is anything to roll back. What tells:
//
//	sql.ErrTxDone   the function called Commit or Rollback
//	Postgres        SAVEPOINT is refused outside of a transaction (25P01), and only there
//	MySQL           the savepoint of Begin is gone
//	SQLite          ROLLBACK is refused outside of a transaction
//
// It does not tell if the connection is dead, or if the function has begun another transaction by text on Postgres or SQLite.
package boundtx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/internal/dialect"
)

// RollbackTimeout bounds a rollback of which the server does not say that it has arrived.
const RollbackTimeout = 5 * time.Second

// savepoint is lost when a MySQL server rolls back or commits behind our back. On Postgres it is only asked for.
const savepoint = "tenure_tx"

// Tie is between a transaction and a context. One goroutine uses it.
type Tie struct {
	d     dialect.Dialect
	conn  *sql.Conn
	tx    *sql.Tx
	end   context.CancelFunc // of the context that the transaction was begun under
	untie func() bool
	cut   chan struct{} // closed when the caller's context has ended and the transaction was given up for that

	asked atomic.Bool // somebody has asked, or asks, for MySQL's savepoint, which answers once
	over  bool        // committed or rolled back, or tried to
	clean bool        // and the server agreed: the connection may be used again
	found finding     // by giveUp; after a cut, read once cut is closed
	err   error       // of the rollback
}

// finding is what there was to roll back.
type finding uint8

const (
	open   finding = iota // the transaction, as far as can be told
	closed                // nothing: its Commit or Rollback was called
	gone                  // nothing, or another: the server has ended it
)

// Begin begins a transaction that is rolled back when ctx ends. End has to be called in the end. An error leaves nothing
// open. On MySQL autocommit has to be off.
func Begin(ctx context.Context, conn *sql.Conn, d dialect.Dialect, opts *sql.TxOptions) (*sql.Tx, *Tie, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end) // BEGIN itself ends with ctx
	tx, err := conn.BeginTx(life, opts)
	if err == nil && d == dialect.MySQL {
		if _, err = tx.ExecContext(life, "SAVEPOINT "+savepoint); err != nil {
			rollback(d, tx, end)
		}
	}
	if !stop() {
		if err == nil {
			rollback(d, tx, end) // or database/sql did, as life has ended
			err = Reason(ctx)
		} else {
			err = fmt.Errorf("%w (%v)", Reason(ctx), err)
		}
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	t := &Tie{d: d, conn: conn, tx: tx, end: end, cut: make(chan struct{})}
	t.untie = context.AfterFunc(ctx, func() {
		defer close(t.cut)
		t.giveUp()
	})
	return tx, t, nil
}

// Reason is ctx's error with its cause, if that says more. ctx must have ended.
func Reason(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Whole fails unless this is still the transaction that Begin began; call it before the commit. It asks MySQL alone, once.
// MySQL rolls back by itself on a deadlock (1213), and on a lock wait timeout (1205) where so configured, and then goes
// on as if nothing had happened; a function that swallows the error would have its later statements committed without the
// earlier ones. With autocommit off they have at least not been committed one by one, and the savepoint being gone
// tells. Elsewhere a failed transaction refuses what follows by itself.
//
// replaced means that the connection lives and is in another transaction: the first was rolled back, or the function has
// committed it (by DDL, say), and there is no telling which.
func (t *Tie) Whole(ctx context.Context) (replaced bool, err error) {
	if t.d != dialect.MySQL {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, Reason(ctx) // not asked yet: Rollback will
	}
	if !t.asked.CompareAndSwap(false, true) {
		return false, sql.ErrTxDone // ctx has ended, and it is being rolled back
	}
	return releaseSavepoint(ctx, t.tx)
}

func releaseSavepoint(ctx context.Context, tx *sql.Tx) (replaced bool, err error) {
	if _, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint); err == nil {
		return false, nil
	}
	_, dead := tx.ExecContext(ctx, "DO 0")
	return dead == nil, err
}

// Commit commits, and gives up when ctx ends. Not sent: ctx had ended before, and the transaction was rolled back for that,
// unless Rollback says that it had ended already. Sent: an error does not say whether the commit failed or only its reply.
func (t *Tie) Commit(ctx context.Context) (sent bool, err error) {
	t.over = true
	if !t.untie() {
		<-t.cut
		return false, Reason(ctx)
	}
	stop := context.AfterFunc(ctx, t.end)
	defer stop()
	if t.d == dialect.MySQL {
		err = t.commitText(ctx)
	} else {
		err = t.tx.Commit()
		t.clean = err == nil
	}
	if err != nil && t.d == dialect.SQLite {
		// A busy database refuses a COMMIT and leaves the transaction open, but database/sql takes it for ended. Not
		// every driver sees to this.
		_, _ = t.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // fails if the driver did
	}
	return true, err
}

// commitText is for go-sql-driver/mysql, whose Commit and Rollback obey no context; its ExecContext closes the connection
// when ctx ends. database/sql must hear of the end as well: its Rollback comes when nothing is open any more, and
// costs a round trip, for which a server that falls silent between the two is waited for.
func (t *Tie) commitText(ctx context.Context) error {
	_, err := t.tx.ExecContext(ctx, "COMMIT")
	t.clean = t.tx.Rollback() == nil && err == nil
	return err
}

// Rollback gives the transaction up because of why, which may be nil, unless it is over. It reports whether the transaction had been
// ended before, so that nobody knows what became of it: not if that was done here because ctx has ended, nor if why is the
// database's own word that it has rolled back, or that of a guard which did so (GivenUp). err is why the server may not have
// heard of it. Called again it says the same of another why.
func (t *Tie) Rollback(why error) (ended bool, err error) {
	if !t.over {
		t.over = true
		if t.untie() {
			t.giveUp()
			t.clean = t.err == nil && t.found == open
		} else {
			<-t.cut // and the connection is in who knows what state
		}
	}
	switch t.found {
	case closed:
		return !gaveUp(why, t.tx), t.err
	case gone:
		return !t.d.RollsBack(why), t.err
	}
	return false, t.err
}

func (t *Tie) giveUp() {
	mayAsk := t.asked.CompareAndSwap(false, true)
	ctx, cancel := context.WithTimeout(context.Background(), RollbackTimeout)
	defer cancel()
	if mayAsk && hasEnded(ctx, t.d, t.tx) {
		t.found = gone
	}
	t.err = rollback(t.d, t.tx, t.end)
	switch {
	case errors.Is(t.err, sql.ErrTxDone):
		t.found = closed
	case t.d == dialect.SQLite && t.d.NoTransaction(t.err):
		t.found = gone
	}
}

// hasEnded asks the server.
func hasEnded(ctx context.Context, d dialect.Dialect, tx *sql.Tx) bool {
	switch d {
	case dialect.Postgres:
		_, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint)
		return d.NoTransaction(err)
	case dialect.MySQL:
		replaced, _ := releaseSavepoint(ctx, tx)
		return replaced
	}
	return false // its Rollback will tell
}

// rollback is tx.Rollback, bounded.
func rollback(d dialect.Dialect, tx *sql.Tx, end func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), RollbackTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, end) // for drivers whose transactions end with the context they were begun under
	if d == dialect.MySQL {             // see commitText
		_, _ = tx.ExecContext(ctx, "ROLLBACK")
	}
	err := tx.Rollback()
	if !stop() && errors.Is(err, sql.ErrTxDone) {
		return ctx.Err() // database/sql was faster, since its context had just been ended
	}
	return err
}

// Clean reports whether the transaction is over and the connection may be used again.
func (t *Tie) Clean() bool { return t.clean }

// End ends the context that the transaction was begun under, and whatever of the transaction still runs.
func (t *Tie) End() { t.end() }
