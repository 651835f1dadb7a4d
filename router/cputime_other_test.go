//go:build !unix

package router_test

import "time"

// cpuTime is not known here: 0.
func cpuTime() time.Duration { return 0 }
