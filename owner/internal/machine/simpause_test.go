package machine

import "slices"

// How time may pass for a process that does not run.
type pause uint8

const (
	stopped   pause = iota // SIGSTOP: its clock goes on, and its timers are due when it continues
	suspended              // the host sleeps: its clock counts that, but what is left of its timers runs after
	halted                 // the hypervisor stops every clock: no process can tell, and only the fence is left (I6)
)

func (p pause) String() string { return [...]string{"stopped", "suspended", "halted"}[p] }

// halt has the process not run for up to two TTLs.
func (n *simNode) halt(how pause) {
	if n.paused {
		return
	}
	n.paused, n.how, n.since = true, how, n.now
	n.trace(n.name, "is %v", how)
	n.after(n.between(0, 2*n.c.TTL), n.resume)
}

// resume continues a paused process. First of all it lets requests in, as one whose loop has not run
// yet would.
func (n *simNode) resume() {
	if !n.up || !n.paused {
		return
	}
	n.paused = false
	n.trace(n.name, "continues")
	switch n.how {
	case suspended:
		n.armAt(n.now + n.between(0, n.c.TTL/3)) // the driver's heartbeat
	case halted:
		n.offset -= n.now - n.since
		n.halts++
		for _, l := range n.leases {
			n.checks.ended[l] = true
		}
	}
	for s := range n.at {
		for _, t := range slices.Clone(n.at[s]) {
			if t.node == n {
				n.enter(t)
			}
		}
	}
	for n.up && !n.paused && len(n.frozen)+len(n.stream) > 0 {
		var fn func()
		if n.IntN(len(n.frozen)+len(n.stream)) < len(n.frozen) {
			i := n.IntN(len(n.frozen))
			fn = n.frozen[i]
			n.frozen = slices.Delete(n.frozen, i, i+1)
		} else {
			fn = n.stream[0]
			n.stream = n.stream[1:]
		}
		fn()
	}
	if n.up && n.how != suspended {
		n.armed = 0
		n.arm()
	}
}

// skew has the node's clock run at another pace from here on.
func (n *simNode) skew() {
	shown := n.local()
	n.drift = int64(n.IntN(2*maxDrift) - maxDrift)
	n.offset += shown - n.local()
	n.armed = 0
	if n.m.View() != nil {
		n.arm()
	}
}

// maxDrift is in parts per million, either way: 80 ms of a lease of 2 s, well within the margin.
const maxDrift = 40_000
