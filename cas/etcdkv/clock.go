package etcdkv

import (
	"sync/atomic"
	"time"
)

// drifted is how far wall and monotonic time may part before the clock looks for a suspend. It
// is far above the noise of two readings and far below any margin of a lease.
const drifted = 5 * time.Millisecond

// clock counts the time since it was made, suspend included.
//
// Go's monotonic clock stands still while the machine is suspended, and the lease at the
// server does not. Linux has a clock that counts suspend, but reading it is a system call.
// A suspend also moves the wall clock against the monotonic one, and time.Now has both at
// hand: so only when they part does the clock ask boot how much was slept through. Where
// boot has no answer, the drift itself counts as suspend if it is forward: a wall clock set
// forward then ends trust early, which is safe; one set back changes nothing.
//
// The result never runs backwards: it is monotonic time plus asleep, which only grows.
type clock struct {
	read func() (mono, wall time.Duration)
	boot func() (time.Duration, bool)

	boot0 time.Duration // boot when mono was mono0
	mono0 time.Duration
	state atomic.Pointer[drift]
}

// drift is what the latest look found.
type drift struct {
	known  time.Duration // wall minus monotonic time
	asleep time.Duration // suspended since the clock was made
}

func newClock(read func() (mono, wall time.Duration), boot func() (time.Duration, bool)) *clock {
	c := &clock{read: read, boot: boot}
	mono, wall := read()
	c.mono0 = mono
	if b, ok := boot(); ok {
		c.boot0 = b
	} else {
		c.boot = func() (time.Duration, bool) { return 0, false }
	}
	c.state.Store(&drift{known: wall - mono})
	return c
}

// systemClock reads the machine's clocks.
func systemClock() *clock {
	start := time.Now()
	return newClock(func() (mono, wall time.Duration) {
		now := time.Now()
		return now.Sub(start), time.Duration(now.UnixNano())
	}, bootTime)
}

func (c *clock) Now() time.Duration {
	mono, wall := c.read()
	d := c.state.Load()
	if parted := wall - mono - d.known; parted > drifted || parted < -drifted {
		return c.look()
	}
	return mono + d.asleep
}

// look finds out how much was slept through. It takes no lock: of several callers that see
// the same drift one stores what it found, and the others look again.
func (c *clock) look() time.Duration {
	for {
		old := c.state.Load()
		mono, wall := c.read()
		found := &drift{known: wall - mono, asleep: old.asleep}
		if boot, ok := c.boot(); ok {
			// Boot time is read after mono, so what passes between the two counts as sleep
			// and not as trust.
			found.asleep = max(old.asleep, (boot-c.boot0)-(mono-c.mono0))
		} else if parted := found.known - old.known; parted > drifted {
			found.asleep += parted
		}
		if c.state.CompareAndSwap(old, found) {
			return mono + found.asleep
		}
	}
}
