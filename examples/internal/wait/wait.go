// Package wait waits for conditions, with a deadline.
package wait

import (
	"context"
	"fmt"
	"time"
)

// Until waits until done says true, and looks every few milliseconds. It gives up when ctx ends, or after most:
// then the error says what was waited for, and what there was instead.
func Until(ctx context.Context, most time.Duration, what string, done func() (ok bool, instead string)) error {
	deadline := time.Now().Add(most)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, instead := done()
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s; instead: %s", most, what, instead)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("while waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}
