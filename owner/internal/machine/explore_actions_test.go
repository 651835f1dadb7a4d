package machine

import (
	"fmt"
	"slices"
	"time"
)

// xKind is what can happen.
type xKind uint8

const (
	// What happens by itself.
	xApply      xKind = iota // a request arrives at the store
	xReply                   // its answer arrives
	xTimeout                 // the node hears that its request is uncertain
	xWatch                   // the watch brings a revision, or progress
	xTick                    // a deadline of the machine's has passed
	xExpire                  // a lease that was not renewed ends
	xReady                   // a handler is ready
	xDrain                   // nobody is inside any more
	xReturn                  // a handler whose context has ended returns
	xEnded                   // both, of a tenure that was lost: neither does anything without the other
	xPrepared                // a preparation is done
	xPlanned                 // a plan is made
	xAdvance                 // time passes, up to the next deadline
	xCalm                    // faults end, for good
	xContinue                // a paused process goes on
	xHeal                    // a process reaches the store again
	xUnstall                 // a late watch goes on
	xHaunt                   // a request that nobody waits for arrives
	xSpace                   // the store takes writes again
	xReboot                  // a crashed process starts again
	xRebootTake              // and takes its id over
	xUndrain                 // an operator takes his drain back

	// Faults, and what else disturbs. Each costs one.
	fLoseRequest
	fLoseReply
	fLate // the request arrives late, perhaps too late
	fSlowReply
	fRefuse
	fStall
	fBreak
	fPause
	fCut
	fCrash
	fEvict
	fErase
	fDrain
	fLeave
	fTakeover
	fPin
	fSlowReady
	fSlowDrain
	fSlowReturn
	fStartFails
	fBroken // this start fails, and each one after it of this shard in this process
	fReturnsEarly
	fGiveUp
	fPrepareFails
	fPrepareSlow
	fPlanSlow
	fFull
	fLineage
	fElection // etcd elects a leader, which gives every lease its full TTL
)

func (k xKind) String() string {
	return [...]string{
		"apply", "reply", "timeout", "watch", "tick", "expire", "ready", "drain", "return", "ended", "prepared", "planned",
		"advance", "calm", "continue", "heal", "unstall", "haunt", "space", "reboot", "reboot-takeover", "undrain",
		"lose-request", "lose-reply", "late", "slow-reply", "refuse", "stall", "break", "pause", "cut", "crash", "evict",
		"erase", "drain-node", "leave", "takeover", "pin", "slow-ready", "slow-drain", "slow-return", "start-fails", "broken",
		"returns-early", "give-up", "prepare-fails", "prepare-slow", "plan-slow", "full", "lineage", "election",
	}[k]
}

func (k xKind) fault() bool { return k >= fLoseRequest }

// xAction is one thing that can happen: to a node, and there to what has the index i.
type xAction struct {
	kind xKind
	node int8
	i    int8

	fate xKind // of a request that is sent with it; 0: none has any
	of   int8  // of which
}

// xFates are what can happen to a request when it is sent.
var xFates = [...]xKind{fLoseRequest, fLate, fRefuse, fLoseReply, fSlowReply}

func (a xAction) String() string {
	if a.fate != 0 {
		return fmt.Sprintf("%v(%d,%d), %v its request %d", a.kind, a.node, a.i, a.fate, a.of)
	}
	return fmt.Sprintf("%v(%d,%d)", a.kind, a.node, a.i)
}

// actions is all that can happen now. Time passes only when nothing else is on its way that is not slow: so messages and
// handlers take no time, unless a fault makes them take any.
func (w *xWorld) actions(to []xAction) []xAction {
	busy := false
	add := func(kind xKind, node, i int, slow bool) {
		to = append(to, xAction{kind: kind, node: int8(node), i: int8(i)})
		busy = busy || !slow
	}
	for k, l := range w.store.leases {
		if l.expires <= w.now {
			add(xExpire, -1, k, false)
		}
	}
	for i, n := range w.nodes {
		w.nodeActions(i, n, add)
	}
	// What is faulty ends within two TTLs of the last fault. By then all that comes of it has come, and time alone would go on for ever.
	if next := w.next(); !busy && next != 0 && (w.calm || next <= w.limit || !w.outstanding()) {
		add(xAdvance, -1, -1, true)
	}
	if w.calm {
		return to
	}
	add(xCalm, -1, -1, true)
	w.ends(add)
	if w.left > 0 {
		w.faults(func(kind xKind, node, i int) {
			if w.scope.allowed(kind) {
				to = append(to, xAction{kind: kind, node: int8(node), i: int8(i)})
			}
		})
	}
	return to
}

func (w *xWorld) nodeActions(i int, n *xNode, add func(xKind, int, int, bool)) {
	for k, r := range n.requests {
		if r.phase == xAsked {
			add(xApply, i, k, r.slow) // it is no longer in the process
		}
	}
	if n.paused {
		return
	}
	answers, handlers := true, true
	for k, r := range n.requests {
		if r.phase == xAnswered && (r.slow || answers) {
			add(xReply, i, k, r.slow)
			answers = answers && (r.slow || !w.scope.coarse)
		}
		if w.now >= r.sent+RequestTimeout(n.c.TTL) && (r.phase == xLost || r.slow) {
			add(xTimeout, i, k, false)
		}
	}
	if n.watching && !n.cut {
		if _, ok := w.store.since(n.pos); ok || n.asked > n.pos {
			add(xWatch, i, -1, n.stalled)
		}
	}
	if next := n.m.Next(); next != 0 && next <= w.now {
		add(xTick, i, -1, false)
	}
	handler := func(kind xKind, k int, slow bool) {
		if slow || handlers {
			add(kind, i, k, slow)
			handlers = handlers && (slow || !w.scope.coarse)
		}
	}
	for k, t := range n.tenures {
		if t.lost && !t.drained && !t.returned && !t.slowReturn && !t.slowDrain {
			handler(xEnded, k, false)
			continue
		}
		if !t.returned && !t.ready && !t.ended {
			handler(xReady, k, t.slowReady)
		}
		if !t.returned && t.ended {
			handler(xReturn, k, t.slowReturn)
		}
		if t.closed && !t.drained {
			handler(xDrain, k, t.slowDrain)
		}
	}
	for k, p := range n.preps {
		add(xPrepared, i, k, p.slow)
	}
	if n.plan != nil {
		add(xPlanned, i, -1, n.planSlow)
	}
}

// next is when something happens at the earliest, if nothing happens before; 0: never.
func (w *xWorld) next() time.Duration {
	var next time.Duration
	at := func(t time.Duration) {
		if t > w.now {
			next = sooner(next, t)
		}
	}
	for _, l := range w.store.leases {
		at(l.expires)
	}
	for _, n := range w.nodes {
		if n.paused {
			continue
		}
		at(n.m.Next())
		for _, r := range n.requests {
			if r.phase == xLost || r.slow {
				at(r.sent + RequestTimeout(n.c.TTL))
			}
		}
	}
	return next
}

// ends are the ends of faults. They cost nothing.
func (w *xWorld) ends(add func(xKind, int, int, bool)) {
	for i, n := range w.nodes {
		if n.paused {
			add(xContinue, i, -1, true)
		}
		if n.cut {
			add(xHeal, i, -1, true)
		}
		if n.stalled {
			add(xUnstall, i, -1, true)
		}
	}
	for k := range w.ghosts {
		add(xHaunt, -1, k, true)
	}
	if w.store.full {
		add(xSpace, -1, -1, true)
	}
	for k, id := range w.reboots {
		if slices.ContainsFunc(w.nodes, func(n *xNode) bool { return n.id == id }) {
			continue
		}
		add(xReboot, -1, k, true)
		if w.scope.takeover {
			add(xRebootTake, -1, k, true)
		}
	}
	for i, n := range w.nodes {
		if w.store.get(w.scope.keys.Drain(n.id)).Rev != 0 {
			add(xUndrain, i, -1, true)
		}
	}
}
