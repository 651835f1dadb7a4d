package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// Tx begins, runs fn once, guards, commits. nil means that it was applied under a token that was
// the sealed one at the commit.
//
// fn's error rolls back and comes back wrapped: Is and As work as before, and its Outcome is
// NotApplied. A panic in fn rolls back and goes on. A refused guard is *FencedError, ErrNotSealed or
// *GroupError, and nothing was applied. A commit that failed is cas.ErrUncertain, because its reply may
// be what was lost, unless the database has said that it refused; after it, end the tenure and load
// state again, or find out by an operation id. Tx never runs fn a second time.
//
// ctx bounds the transaction. Pass one that loss does not end, such as context.WithoutCancel of the
// request's, or one that it does: the fence holds either way. Work that another call of Tx is to see must
// not wait for it inside fn: with one connection in the pool the two would wait for each other.
//
// fn must not end the transaction, nor keep it; on MySQL it must not use what commits implicitly. If it does
// end it, by Commit or by text, Tx fails, and the outcome is Uncertain, whatever fn returns and whether or not ctx
// ends too. Return the database's errors that you meet: a deadlock (1213) that fn keeps quiet about looks
// like a commit of its own on MySQL, and is Uncertain. Tx can't see that fn ended the transaction by text if it
//   - begins another by text, or loses the connection, afterwards,
//   - returns a deadlock's error afterwards, on MySQL, or an ended context's, on SQLite,
//   - returns nil, on Postgres where SQLConfig.Idle costs no round trip: then nil says that the guard passed afterwards.
func (f *SQL) Tx(ctx context.Context, tok shard.Token, fn func(*sql.Tx) error) error {
	if err := CheckToken(tok); err != nil {
		return err
	}
	s, err := f.begin(ctx, &f.c.Tx)
	if err != nil {
		return notApplied("begin", err)
	}
	op, err := f.runGuarded(ctx, s, tok, fn)
	switch op {
	case opNone:
		return nil
	case opGuard:
		err := f.explain(ctx, tok, op, err)
		f.giveUp(ctx, tok, err)
		return err
	case opCommit:
		if !refusedCommit(f.d, err) {
			return fmt.Errorf("fence: commit: %w: %w", cas.ErrUncertain, err)
		}
		return f.explain(ctx, tok, op, err)
	}
	return err
}

// Where a guarded transaction can stop. The words are part of error messages.
const (
	opNone   = ""
	opFn     = "transaction function"
	opGuard  = "guard"
	opCommit = "commit"
)

// runGuarded runs fn in s, guards and commits, and says how far it came. On return, and when fn
// panics, the session is over.
func (f *SQL) runGuarded(ctx context.Context, s *session, tok shard.Token, fn func(*sql.Tx) error) (op string, err error) {
	defer s.end(ctx)
	if err := fn(s.tx); err != nil {
		return opFn, s.failed(opFn, err, err)
	}
	replaced, err := s.tie.Whole(ctx)
	if replaced {
		return opFn, &opError{opFn, fmt.Errorf("%w: %w", errReplaced, err), cas.Uncertain}
	}
	inside := true
	if err == nil {
		inside, err = f.guard(ctx, s.tx, tok, s.marked)
	}
	switch {
	case !inside:
		return opFn, &opError{opFn, errEnded, cas.Uncertain}
	case err == nil:
		return s.commit(ctx)
	}
	why := err
	if ctx.Err() != nil {
		why = nil // what was interrupted here is a read, which takes no transaction along
	}
	if ended, _ := s.tie.Rollback(why); ended {
		return opFn, &opError{opFn, fmt.Errorf("%w: %w", errEnded, err), cas.Uncertain}
	}
	return opGuard, err
}

// What fn did before these was not guarded.
var (
	errEnded    = errors.New("it ended the transaction, which only Tx may, or kept quiet that the server had (1213)")
	errReplaced = errors.New("it went on after the server had rolled back (1213, 1205), or it committed (DDL does so too)")
)
