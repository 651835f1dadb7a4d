package idem

import "context"

// Policy is what to do with an operation whose earlier try was interrupted: its process crashed or
// was replaced, fn panicked, or fn returned an error that does not say that nothing was done. The zero
// value is Retry.
type Policy struct {
	block     bool
	reconcile func(ctx context.Context, op *Op) (result any, done bool, err error)
}

// Retry runs fn again. Steps that were recorded are not run again, and those that were not get the same key
// as before. It is the zero Policy, and right where each effect is a step whose receiver honours its
// key, or is in a StepTx.
func Retry() Policy { return Policy{} }

// Block refuses with *InterruptedError until somebody calls Settle or Reopen: for effects that must
// not happen twice, at a receiver that honours no key and can't be asked.
func Block() Policy { return Policy{block: true} }

// Reconcile calls f, which finds out what the earlier try has done: it asks the receiver, looks for
// op.Key of a step there, or reads the ledger. With done, result ends the operation; without, fn runs;
// with an error the operation stays interrupted, and the next try calls f again. f may use Step. R is what Do's fn
// returns.
func Reconcile[R any](f func(ctx context.Context, op *Op) (result R, done bool, err error)) Policy {
	return Policy{reconcile: func(ctx context.Context, op *Op) (any, bool, error) {
		r, done, err := f(ctx, op)
		return r, done, err
	}}
}
