package owner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
)

// TestWithin_EndsBeforeTrust: cut off from the store, work ends margin before the tenure does, and not before.
func TestWithin_EndsBeforeTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 1, accounts, serve, owner.Config{TTL: 10 * time.Second})
		tenure := c.Tenure("alice")
		const margin = 2 * time.Second
		ctx, cancel := tenure.Within(t.Context(), margin)
		defer cancel()

		time.Sleep(time.Minute) // many renewals
		if ctx.Err() != nil {
			t.Fatalf("ended though the lease is renewed: %v", context.Cause(ctx))
		}
		c.Cut(0, true)
		<-ctx.Done()
		if got := context.Cause(ctx); !errors.Is(got, owner.ErrBudget) {
			t.Errorf("cause: got %v, want ErrBudget", got)
		}
		if left := tenure.Left(); left > margin || left < margin-time.Millisecond {
			t.Errorf("trust left: got %v, want %v", left, margin)
		}
		<-tenure.Context().Done()
		if left := tenure.Left(); left != 0 {
			t.Errorf("trust left after loss: got %v", left)
		}
	})
}

// TestWithin_EndsWithTheTenure: at once if the tenure is over, and with its cause.
func TestWithin_EndsWithTheTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 2, accounts, serve, owner.Config{})
		tenure := c.Tenure("alice")
		ctx, cancel := tenure.Within(t.Context(), 0)
		defer cancel()
		c.Move("alice", 1-c.Owner("alice"))
		synctest.Wait()
		if got := context.Cause(ctx); !errors.Is(got, owner.ErrHandoff) {
			t.Errorf("cause: got %v, want ErrHandoff", got)
		}
		late, cancel := tenure.Within(t.Context(), 0)
		defer cancel()
		if got := context.Cause(late); !errors.Is(got, owner.ErrHandoff) {
			t.Errorf("cause: got %v, want ErrHandoff", got)
		}
	})
}

// TestWithin_Margin: one that can't be kept ends the context at once; a negative one counts as none.
func TestWithin_Margin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 1, accounts, serve, owner.Config{TTL: 10 * time.Second})
		tenure := c.Tenure("alice")
		ctx, cancel := tenure.Within(t.Context(), time.Minute)
		defer cancel()
		if got := context.Cause(ctx); !errors.Is(got, owner.ErrBudget) {
			t.Errorf("margin above the trust: got %v, want ErrBudget", got)
		}
		ctx, cancel = tenure.Within(t.Context(), -time.Minute)
		if ctx.Err() != nil {
			t.Errorf("negative margin: %v", context.Cause(ctx))
		}
		cancel()
		if got := context.Cause(ctx); !errors.Is(got, context.Canceled) {
			t.Errorf("cancelled: got %v", got)
		}
	})
}

// TestLeft_WhileTheStoreAnswers: it is what its documentation says.
func TestLeft_WhileTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		c := ownertest.Start(t, 1, accounts, serve, owner.Config{TTL: ttl})
		tenure := c.Tenure("alice")
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			time.Sleep(97 * time.Millisecond)
			least, most = min(least, tenure.Left()), max(most, tenure.Left())
		}
		if most > ttl*9/10 || most < ttl*88/100 || least < ttl/2 || least > ttl*6/10 {
			t.Errorf("left between %v and %v of %v, want 9s and a little more than 5s", least, most, ttl)
		}
	})
}
