package idem

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// Commit is what a package such as sqlidem has to offer so that an effect and its record become
// true in one commit of a database. Programs call that package, not this.
//
// A Commit begins a transaction and calls t.Run once, which has the effect in it; it writes what Run
// returned over revision t.Rev of the record t.ID, has t.Token guarded, and commits. It returns the
// record's new revision. With t.Hold it makes sure before Run that the record is at t.Rev, and that
// nobody else changes it until the commit.
//
// Errors: Run's, wrapped, after a rollback; a *ConflictError as it is, after a rollback; one that
// wraps cas.ErrUncertain if it can't be known whether it was committed; others mean that it was
// not. Run's panic is let through after a rollback.
type Commit func(ctx context.Context, t Txn) (rev int64, err error)

// Txn is what a Commit is to do.
type Txn struct {
	ID    string
	Rev   int64
	Token shard.Token // of the operation; the zero Token if it has none
	Hold  bool
	Run   func() (Put, error)
}

// StepIn is Step whose effect and record are one commit. With last it ends the operation as well, with
// its value as the result: fn of Do must return just that.
func StepIn[R any](ctx context.Context, op *Op, name string, last bool, commit Commit, fn func() (R, error)) (R, error) {
	var zero, r R
	m, known, err := op.memo(ctx, name)
	if err != nil {
		return zero, err
	}
	if known {
		return decode[R](m.Value, "step "+name)
	}
	err = op.commit(ctx, name, last, commit, func() (any, error) {
		var err error
		r, err = fn()
		return r, err
	})
	if err != nil {
		return zero, err
	}
	return r, nil
}

func (o *Op) commit(ctx context.Context, name string, last bool, commit Commit, fn func() (any, error)) error {
	if err := o.lock(ctx); err != nil {
		return err
	}
	defer o.unlock()
	if o.over.Load() { // while it waited for its turn
		return refused("idem: step %q: the operation has ended", name)
	}
	h := o.head
	h.Write = o.number()
	var m memo
	sent := time.Now()
	within, cancel := o.remembered(ctx)
	defer cancel()
	rev, err := commit(within, Txn{ID: o.id, Rev: o.rev.Load(), Token: o.q.Token, Run: func() (Put, error) {
		value, err := fn()
		if err != nil {
			return Put{}, err
		}
		if m, err = o.newMemo(name, value); err != nil {
			return Put{}, Undone(err) // it is rolled back
		}
		return o.committed(&h, name, m, last)
	}})
	if lostCommit(err) {
		rev, err = o.settleCommit(ctx, name, h, err)
	}
	if conflict, ok := err.(*ConflictError); ok {
		if o.adopt(conflict.Current) {
			return &opError{"step " + name, errMoved, cas.NotApplied}
		}
		return o.lose(errTaken)
	}
	if err != nil {
		if context.Cause(within) == errForgotten {
			err = &opError{"step " + name, errors.Join(errForgotten, err), cas.OutcomeOf(err)}
		}
		return err
	}
	o.moved(h, rev, sent)
	if last {
		o.last = m.Value
		if o.last == nil {
			o.last = []byte{}
		}
		o.over.Store(true)
	}
	return nil
}

// remembered ends before the record is forgotten. As long as a transaction runs nobody can write the record anew, and once it were
// gone the key would be as new: somebody would run the operation beside this try, or Purge delete what the commit is to find.
func (o *Op) remembered(ctx context.Context) (context.Context, context.CancelFunc) {
	forget := o.e.forget()
	return context.WithDeadlineCause(ctx, o.begun.Add(time.Duration(o.written.Load())+forget-forget/8), errForgotten)
}

var errForgotten = refused("the transaction has run for nearly as long as its record is kept (Config.Keep and Config.Tombstone together): " +
	"keep records for longer, or make the transaction shorter")

// lostCommit reports whether err says that a commit may have been made. (Another uncertain one is that of
// a function that has ended its transaction by itself, and the record says nothing of that.)
func lostCommit(err error) bool {
	return err != nil && cas.OutcomeOf(err) == cas.Uncertain && errors.Is(err, cas.ErrUncertain)
}

var errMoved = refused("the record was at another revision, because an earlier write of this try was applied after all; nothing was committed")

// committed is what stands in the record once the step has been committed.
func (o *Op) committed(h *head, name string, m memo, last bool) (Put, error) {
	var body []byte
	if last {
		h.State, h.Steps = done, nil
		h.Dropped, h.Size = m.Dropped, m.Size
		body = m.Value
	} else {
		m.with(name)(h)
	}
	b, err := h.encode()
	return o.e.put(h.State, b, body), err
}

// settleCommit finds out whether a commit was made whose reply was lost, by writing the record as it
// was before: if that is applied the commit never will be, and otherwise what is there tells.
func (o *Op) settleCommit(ctx context.Context, name string, h head, lost error) (int64, error) {
	lasting := o.e.lasting(ctx)
	defer lasting.cancel()
	before := o.head
	before.Write = o.number()
	b, err := before.encode()
	if err != nil {
		return 0, err
	}
	sent := time.Now()
	rev, err := o.e.swap(lasting, o.id, o.rev.Load(), o.e.put(before.State, b, nil), &before, true)
	if err == nil {
		o.moved(before, rev, sent)
		return 0, &opError{"step " + name + " was not committed", lost, cas.NotApplied}
	}
	conflict, ok := err.(*ConflictError)
	if !ok {
		return 0, &FinishError{Step: name, Err: lost}
	}
	if h.wrote(conflict.Current) {
		return conflict.Current.Rev, nil
	}
	return 0, conflict
}

// DoIn is Do for work that is one transaction: claim, effect and result are one commit. fn may be run
// again if a commit is known not to have been made; Request.Interrupted may not be Reconcile.
func DoIn[R any](ctx context.Context, e *Engine, q Request, commit Commit, fn func() (R, error)) (R, error) {
	var zero, r R
	if q.Interrupted.reconcile != nil {
		return zero, refused("idem: Request.Interrupted: one transaction leaves nothing to reconcile: use Retry or Block, or Do with steps")
	}
	found, err := e.negotiate(ctx, q, func(o opening) error {
		return e.commit(ctx, q, o, commit, func() (any, error) {
			var err error
			r, err = fn()
			return r, err
		})
	})
	switch {
	case err != nil:
		return zero, err
	case found != nil:
		return decode[R](found.body, "the operation")
	}
	return r, nil
}

func (e *Engine) commit(ctx context.Context, q Request, o opening, commit Commit, fn func() (any, error)) error {
	h := o.head
	var final error
	_, err := commit(ctx, Txn{ID: o.id, Rev: o.rev, Token: q.Token, Hold: true, Run: func() (Put, error) {
		value, err := fn()
		if err != nil {
			if isFinal(err) {
				final = err
			}
			return Put{}, err
		}
		body, err := json.Marshal(value)
		if err != nil {
			return Put{}, Undone(err)
		}
		h.State, h.Steps = done, nil
		if len(body) > e.c.MaxResult {
			h.Dropped, h.Size, body = true, len(body), nil
		}
		h.Write++
		b, err := h.encode()
		return e.put(done, b, body), err
	}})
	switch {
	case final != nil:
		return e.failIn(ctx, o, final)
	case lostCommit(err):
		return e.settleCommit(ctx, o, h, err)
	}
	return err
}

// failIn records a final error, when what led to it has been rolled back.
func (e *Engine) failIn(ctx context.Context, o opening, final error) error {
	lasting := e.lasting(ctx)
	defer lasting.cancel()
	op := e.newOp(Request{Scope: o.head.Scope, Key: o.head.Key}, o, o.rev, time.Now())
	message, body, err := messageOf(final)
	if err != nil {
		return err
	}
	outcome := cas.OutcomeOf(final)
	err = op.write(lasting, body, true, func(h *head) { h.State, h.Outcome, h.Steps = failed, outcome, nil })
	if _, raced := err.(*ConflictError); raced || err == nil {
		if err == nil {
			err = &FailedError{Message: message, Err: final, outcome: outcome}
		}
		return err
	}
	return &FinishError{Err: err}
}

// settleCommit is Op.settleCommit for an operation that is a commit as a whole.
func (e *Engine) settleCommit(ctx context.Context, o opening, h head, lost error) error {
	lasting := e.lasting(ctx)
	defer lasting.cancel()
	before := o.head
	before.State, before.Interrupted = open, o.interrupted
	before.Write += 2
	b, err := before.encode()
	if err != nil {
		return err
	}
	_, err = e.swap(lasting, o.id, o.rev, e.put(open, b, nil), &before, true)
	if err == nil {
		return &opError{"the transaction was not committed", lost, cas.NotApplied}
	}
	if conflict, ok := err.(*ConflictError); ok {
		if h.wrote(conflict.Current) {
			return nil
		}
		return conflict
	}
	return &FinishError{Err: lost}
}
