package sqlidem

import (
	"context"
	"database/sql"
	"slices"

	"github.com/tenure-go/tenure/idem"
)

// DoTx is idem.Do for work that is one SQL transaction: claim, effect and result are one commit. So
// nothing is left of a try that fails, and no attempt has to end before the next. Another try of the same
// operation waits for this one's commit.
//
// e must be over a Store of this package. fn gets a transaction that it must neither end nor keep; its
// effects outside of the transaction happen as often as it is tried. Its error rolls back and comes
// back wrapped, with the outcome NotApplied; one marked by idem.Final is recorded all the same.
// A commit whose reply was lost is resolved: either it was made, or it never will be and the error says
// NotApplied. If the database stays away it is an *idem.FinishError.
//
// Request.Interrupted may be Retry or Block; it is about tries of Do with the same key.
func DoTx[R any](ctx context.Context, e *idem.Engine, q idem.Request, fn func(*sql.Tx) (R, error)) (R, error) {
	var zero R
	s, ok := e.Store().(*Store)
	if !ok {
		return zero, errOtherStore(e.Store())
	}
	var tx *sql.Tx
	return idem.DoIn(ctx, e, q, s.commit(&tx), func() (R, error) { return fn(tx) })
}

// Option changes what a StepTx is. The zero value changes nothing.
type Option uint8

// Last makes a step the operation's last: its value is the result, and the operation has ended with
// its commit. The function given to idem.Do must return just that value.
//
//	return sqlidem.StepTx(ctx, op, "book", book, sqlidem.Last)
//
// It makes two commits of three: claim, and step with result. It has to be said, because only fn's return could tell that nothing
// comes after the step, and by then that is committed. Nor can the claim wait for the step's commit: tries at the same time would
// both run what fn does before it, and one that crashed there would leave no trace. Where nothing comes before it either, DoTx is
// one commit.
const Last Option = 1

// StepTx is idem.Step whose effect and record are one commit: it happens exactly once. op must be of an engine over a
// Store of this package. What is said of fn and of commits in DoTx holds here. If another try has
// taken over, the transaction is rolled back: *idem.LostError. One that has run for nearly as long as records are kept
// (Config.Keep and Config.Tombstone together) is rolled back too, since its record is about to be forgotten.
func StepTx[R any](ctx context.Context, op *idem.Op, name string, fn func(*sql.Tx) (R, error), options ...Option) (R, error) {
	var zero R
	s, ok := op.Store().(*Store)
	if !ok {
		return zero, errOtherStore(op.Store())
	}
	last := slices.Contains(options, Last)
	var tx *sql.Tx
	return idem.StepIn(ctx, op, name, last, s.commit(&tx), func() (R, error) { return fn(tx) })
}

func errOtherStore(s idem.Store) error {
	return refused("sqlidem: the engine is over a %T, want a *sqlidem.Store", s)
}
