package owner

import (
	"context"
	"testing"
)

// TestWithin_KeepsNothingOfRenewals: work that goes on for long leaves nothing behind with each renewal that it outlives.
func TestWithin_KeepsNothingOfRenewals(t *testing.T) {
	_, tn := open(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	b := newBudget(ctx, cancel, tn, 0)
	b.check()
	if got := testing.AllocsPerRun(100, b.check); got != 0 {
		t.Errorf("a look at the trust allocates %v times, want 0", got)
	}
	if ctx.Err() != nil {
		t.Errorf("ended: %v", context.Cause(ctx))
	}
}
