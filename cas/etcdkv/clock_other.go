//go:build !linux

package etcdkv

import "time"

// bootTime has no counterpart here: the clock goes by the drift of the wall clock.
func bootTime() (time.Duration, bool) { return 0, false }
