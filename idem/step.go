package idem

import (
	"context"
	"encoding/json"

	"github.com/tenure-go/tenure/cas"
)

// Step is a recovery point: once fn has returned without an error that is recorded, and later tries get
// its value, as JSON, without running fn. A name stands for one step of its operation, on all tries.
//
// key is the same on every try, whoever makes it. Pass it on as the third party's own idempotency key:
// between fn's effect and the record of it there is a gap, and a try that ends there leads to fn being
// run again. Without such a key at their end, fn may have its effect twice, and no fence helps.
//
// The value is recorded even if ctx has ended meanwhile. Errors, besides fn's own, which is returned as it
// is: *TooLargeError, if an earlier try's value was not kept; *LostError; *FinishError.
func Step[R any](ctx context.Context, op *Op, name string, fn func(ctx context.Context, key string) (R, error)) (R, error) {
	var zero R
	m, known, err := op.memo(ctx, name)
	if err != nil {
		return zero, err
	}
	if known {
		return decode[R](m.Value, "step "+name)
	}
	r, err := fn(ctx, op.Key(name))
	if err != nil {
		return zero, err
	}
	if err := op.record(ctx, name, r); err != nil {
		return zero, err
	}
	return r, nil
}

// decode reads what an earlier try has left, perhaps of another version of the program.
func decode[R any](b []byte, what string) (R, error) {
	var r R
	if len(b) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(b, &r); err != nil {
		var zero R
		return zero, &opError{what + " is done, but what was kept of it can't be read as " + typeName[R](), err, cas.Applied}
	}
	return r, nil
}
