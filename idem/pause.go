package idem

import (
	"context"
	"math/rand/v2"
	"time"
)

// The n-th wait is drawn from 0 to firstPause doubled n times, at most longestPause.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// pause waits before another try, and reports whether there is to be one: not if ctx has ended.
func pause(ctx context.Context, try int) bool {
	most := longestPause
	if try < 8 {
		most = min(most, firstPause<<try)
	}
	return sleep(ctx, rand.N(most)+1)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
