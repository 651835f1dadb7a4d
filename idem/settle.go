package idem

import "context"

// Settle ends an operation with result, without running anything: for one that was interrupted
// (*InterruptedError) when somebody has found out that it is done. Request.Interrupted plays no part. One that has
// finished already stays as it is, and that is an error; so is one that is in progress.
func Settle[R any](ctx context.Context, e *Engine, q Request, result R) error {
	q.Interrupted = Retry()
	op, found, err := e.begin(ctx, q)
	if err != nil {
		return err
	}
	if found != nil {
		return refused("idem: settle: the operation with key %.100q has finished already", q.Key)
	}
	_, err = op.run(ctx, func(context.Context, *Op) (any, error) { return result, nil })
	return err
}

// Reopen declares that nothing of an interrupted operation was done, so that the next try is like a
// first one, with the steps that were recorded. It changes nothing if the operation was not begun or has
// been given up cleanly. One that has finished or is in progress is an error.
func (e *Engine) Reopen(ctx context.Context, q Request) error {
	q.Interrupted = Retry()
	op, found, err := e.begin(ctx, q)
	if err != nil {
		return err
	}
	if found != nil {
		return refused("idem: reopen: the operation with key %.100q has finished already", q.Key)
	}
	return op.giveUp(ctx, false)
}
