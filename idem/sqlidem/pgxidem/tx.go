package pgxidem

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/idem"
)

// DoTx is sqlidem.DoTx: an operation that is one transaction, with claim, effect and result in one commit.
func DoTx[R any](ctx context.Context, e *idem.Engine, q idem.Request, fn func(pgx.Tx) (R, error)) (R, error) {
	var zero R
	s, ok := e.Store().(*Store)
	if !ok {
		return zero, errOtherStore(e.Store())
	}
	var tx pgx.Tx
	return idem.DoIn(ctx, e, q, s.commit(&tx), func() (R, error) { return fn(tx) })
}

// Option changes what a StepTx is. The zero value changes nothing.
type Option uint8

// Last is sqlidem.Last: the step ends the operation, and its value is the result. It makes two commits of three; sqlidem.Last says why
// that has to be said, and can't be found out.
const Last Option = 1

// StepTx is sqlidem.StepTx: a step whose effect and record are one commit.
func StepTx[R any](ctx context.Context, op *idem.Op, name string, fn func(pgx.Tx) (R, error), options ...Option) (R, error) {
	var zero R
	s, ok := op.Store().(*Store)
	if !ok {
		return zero, errOtherStore(op.Store())
	}
	last := slices.Contains(options, Last)
	var tx pgx.Tx
	return idem.StepIn(ctx, op, name, last, s.commit(&tx), func() (R, error) { return fn(tx) })
}

func errOtherStore(s idem.Store) error {
	return refused("pgxidem: the engine is over a %T, want a *pgxidem.Store", s)
}
