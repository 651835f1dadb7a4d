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
// request's, or one that it does: the fence holds either way. fn must not end the transaction, nor
// keep it; on MySQL it must not use what commits implicitly. If it does end it, Tx fails, and the outcome
// is Uncertain, whether or not ctx ends too. Work that another call of Tx is to see must not wait for it
// inside fn: with one connection in the pool the two would wait for each other.
func (f *SQL) Tx(ctx context.Context, tok shard.Token, fn func(*sql.Tx) error) error {
	if err := CheckToken(tok); err != nil {
		return err
	}
	s, err := f.begin(ctx)
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
		if s.rollback() {
			return opFn, &opError{opFn + " ended the transaction, which only Tx may, and failed", err, cas.Uncertain}
		}
		return opFn, notApplied(opFn, err)
	}
	replaced, err := s.whole(ctx)
	if replaced {
		return opFn, &opError{opFn, fmt.Errorf("%w: %w", errReplaced, err), cas.Uncertain}
	}
	if err == nil {
		err = f.guard(ctx, s.tx, tok)
	}
	if err != nil {
		if s.rollback() {
			return opFn, &opError{opFn, errEnded, cas.Uncertain}
		}
		return opGuard, err
	}
	return s.commit(ctx)
}

// What fn did before these was not guarded.
var (
	errEnded    = errors.New("it ended the transaction, which only Tx may")
	errReplaced = errors.New("it went on after the server had rolled back (1213, 1205), or it committed (DDL does so too)")
)
