package etcdkv

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is CLOCK_BOOTTIME, which goes on while the machine is suspended. Some sandboxes
// lack it.
func bootTime() (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
