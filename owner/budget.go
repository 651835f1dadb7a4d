package owner

import (
	"context"
	"errors"
	"time"
)

// ErrBudget is the cause of a context of Tenure.Within that ended because less trust was left than its margin.
// What ran under it may or may not have been applied.
var ErrBudget = errors.New("owner: too little trust left: the lease was not renewed in time for the margin")

// Left is how much trust the tenure has if its lease is not renewed any more: how long what begins now may take. While the
// store answers it is between nine tenths of the TTL, after a renewal, and a little more than half of it, before the
// next; 0 once the tenure has ended. It is no promise, since a process may be paused after it was read: only a fence makes
// a late write harmless.
func (t *Tenure) Left() time.Duration {
	if t.Err() != nil {
		return 0
	}
	return max(0, t.node.trustUntil()-t.node.clock.Now())
}

// Within returns a context for one piece of work: it ends when no more than margin of trust is left, with cause ErrBudget, and
// when t ends. A renewal prolongs it. So what is cut off by it has margin's time to stop before somebody else may own the
// shard: take margin to be the longest that one call takes to notice its context, for a resource that no fence guards. Call the
// cancel function when the work is done. A margin above what is left ends it at once; one below 0 counts as 0.
//
// The time a suspended machine spends counts for trust, but wakes nobody: after it the context ends late, and gate and
// fence are what refuses.
func (t *Tenure) Within(ctx context.Context, margin time.Duration) (context.Context, context.CancelFunc) {
	margin = max(0, margin)
	ctx, cancel := context.WithCancelCause(ctx)
	ended := context.AfterFunc(t.ctx, func() { cancel(t.Err()) })
	newBudget(ctx, cancel, t, margin).check()
	return ctx, func() {
		ended()
		cancel(context.Canceled)
	}
}

// budget looks at the trust that is left each time that it would have run out, had there been no renewal. It holds
// no timer after ctx has ended.
type budget struct {
	tenure *Tenure
	margin time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // one for all looks: work may outlive many renewals
}

func newBudget(ctx context.Context, cancel context.CancelCauseFunc, t *Tenure, margin time.Duration) *budget {
	b := &budget{tenure: t, margin: margin, ctx: ctx, cancel: cancel}
	b.timer = time.AfterFunc(time.Hour, b.check) // check sets it anew, once it is here to be seen
	context.AfterFunc(ctx, func() { b.timer.Stop() })
	return b
}

func (b *budget) check() {
	if b.ctx.Err() != nil {
		return
	}
	if err := b.tenure.Err(); err != nil {
		b.cancel(err)
		return
	}
	left := b.tenure.Left() - b.margin
	if left <= 0 {
		b.cancel(ErrBudget)
		return
	}
	b.timer.Reset(left)
	if b.ctx.Err() != nil { // and it may have been stopped before
		b.timer.Stop()
	}
}
