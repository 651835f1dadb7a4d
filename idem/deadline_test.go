package idem

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// It is to be told from context.WithTimeout by nothing but what it costs.
func TestDeadline(t *testing.T) {
	type key struct{}
	why := errors.New("why")
	for name, with := range map[string]func(context.Context, time.Duration) (context.Context, func()){
		"context": func(ctx context.Context, d time.Duration) (context.Context, func()) {
			return context.WithTimeout(ctx, d)
		},
		"ours": func(ctx context.Context, d time.Duration) (context.Context, func()) {
			c := withTimeout(ctx, d)
			return c, c.cancel
		},
	} {
		for _, looked := range []bool{false, true} { // whether somebody has waited for it before
			synctest.Test(t, func(t *testing.T) {
				before, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
				defer end(nil)
				ctx, cancel := with(before, time.Minute)
				defer cancel()
				if looked {
					ctx.Done()
				}
				if got := ctx.Value(key{}); got != "value" {
					t.Errorf("%s: value: got %v", name, got)
				}
				if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Minute {
					t.Errorf("%s: deadline: got %v, %t", name, at, ok)
				}
				shorter, cancel := with(ctx, time.Second)
				defer cancel()
				longer, cancel := with(ctx, time.Hour)
				defer cancel()
				if at, _ := longer.Deadline(); time.Until(at) != time.Minute {
					t.Errorf("%s: deadline of a longer one: got %v, want that of the one before", name, at)
				}
				derived, cancel := context.WithCancel(longer)
				defer cancel()
				ended, cancel := with(ctx, time.Minute)
				cancel()
				if ended.Err() != context.Canceled || context.Cause(ended) != context.Canceled {
					t.Errorf("%s: cancelled: got %v", name, ended.Err())
				}
				<-ended.Done()

				time.Sleep(time.Second)
				synctest.Wait() // for the timers of that moment
				if ctx.Err() != nil || shorter.Err() != context.DeadlineExceeded {
					t.Errorf("%s: after a second: got %v, %v", name, ctx.Err(), shorter.Err())
				}
				<-shorter.Done()
				time.Sleep(time.Minute - time.Second)
				for _, c := range []context.Context{ctx, longer, derived} {
					<-c.Done()
					if c.Err() != context.DeadlineExceeded || context.Cause(c) != context.DeadlineExceeded {
						t.Errorf("%s: after a minute: got %v, %v", name, c.Err(), context.Cause(c))
					}
				}

				ctx, cancel = with(before, time.Minute)
				defer cancel()
				if looked {
					ctx.Done()
				}
				end(why)
				if ctx.Err() != context.Canceled || context.Cause(ctx) != why {
					t.Errorf("%s: when the one before has ended: got %v, %v", name, ctx.Err(), context.Cause(ctx))
				}
				<-ctx.Done()
			})
		}
	}
}

// What is derived from it takes no goroutine, which package context would start for a stranger.
func TestDeadline_DerivedTakesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := withTimeout(context.WithoutCancel(t.Context()), time.Minute)
		derived, cancel := context.WithCancel(ctx)
		ctx.cancel()
		if derived.Err() != context.Canceled { // a goroutine would not have run yet
			t.Errorf("got %v, want it ended at once", derived.Err())
		}
		cancel()
	})
}
