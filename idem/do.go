package idem

import (
	"context"
	"fmt"
	"reflect"
)

// Do runs fn, unless an earlier try has finished: then it returns that one's result, which is kept as
// JSON. The try that ran returns fn's own value, and later ones what is read back from JSON, so an R that JSON doesn't carry whole (unexported
// fields, interfaces) comes out differently there. Nobody else runs the operation meanwhile.
//
// fn's error ends the try and is returned as it is. The next try runs fn again, with the values of the steps that
// were recorded. An error that Final has marked ends the operation: it is returned as a
// *FailedError, to later tries too. A panic is let through, and the try counts as interrupted; what that means
// says Request.Interrupted.
//
// fn's context ends with ctx, and with a *LostError as its cause if another try takes over. The
// result is recorded even if ctx has ended.
//
// Errors of Do's own, with nothing run: *InProgressError, *MismatchError, *SupersededError,
// *ExpiredError, *TooLargeError, *InterruptedError, or that the store could not be asked. After a run:
// *LostError, *FinishError. cas.OutcomeOf answers for each.
func Do[R any](ctx context.Context, e *Engine, q Request, fn func(ctx context.Context, op *Op) (R, error)) (R, error) {
	var zero R
	res, err := e.do(ctx, q, func(ctx context.Context, op *Op) (any, error) { return fn(ctx, op) })
	if err != nil {
		return zero, err
	}
	return valueOf[R](res)
}

// result is what became of an operation: a value of this run, or a body of another.
type result struct {
	value    any
	body     []byte
	replayed bool // body counts
}

func valueOf[R any](res result) (R, error) {
	if !res.replayed {
		if r, ok := res.value.(R); ok {
			return r, nil
		}
		var zero R // R is an interface and the value nil
		return zero, nil
	}
	return decode[R](res.body, "the operation")
}

func typeName[R any]() string { return fmt.Sprint(reflect.TypeFor[R]()) }

// do is Do without its type.
func (e *Engine) do(ctx context.Context, q Request, fn func(context.Context, *Op) (any, error)) (result, error) {
	op, found, err := e.begin(ctx, q)
	if err != nil {
		return result{}, err
	}
	if found != nil {
		return result{body: found.body, replayed: true}, nil
	}
	return op.run(ctx, fn)
}

// run runs fn in a claimed operation, and records what comes of it.
func (o *Op) run(ctx context.Context, fn func(context.Context, *Op) (any, error)) (result, error) {
	o.life, o.end = context.WithCancelCause(context.WithValue(ctx, opKey{}, o))
	o.keep()
	returned := false
	defer func() {
		if !returned { // fn has panicked, or left by runtime.Goexit
			o.keeper.stop()
			o.end(nil)
			_ = o.giveUp(ctx, true)
		}
	}()
	value, err := o.attempt(fn)
	returned = true
	o.keeper.stop()
	res, err := o.conclude(ctx, value, err)
	o.end(nil)
	return res, err
}

// attempt reconciles what an interrupted try has left, if so asked, and runs fn if that does not settle it.
func (o *Op) attempt(fn func(context.Context, *Op) (any, error)) (any, error) {
	if reconcile := o.q.Interrupted.reconcile; reconcile != nil && o.interrupted {
		value, settled, err := reconcile(o.life, o)
		if err != nil {
			return nil, fmt.Errorf("idem: reconciling an interrupted try: %w", err) // the doubt stays
		}
		if settled {
			return reconciled{value}, nil
		}
		o.doubt = false
	}
	return fn(o.life, o)
}

// reconciled is a value that Reconcile's function returned, whose type need not be that of Do's.
type reconciled struct{ value any }
