package machine

import (
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// request plays one request to the store. apply runs there at most once, perhaps after the answer;
// answer runs in the process exactly once.
func request[R any](n *simNode, apply func() (R, error), answer func(R, error)) {
	var zero R
	sent, timeout := n.now, RequestTimeout(n.c.TTL)
	uncertain := func() {
		n.later(sent+timeout-n.now, func() { answer(zero, cas.ErrUncertain) })
	}
	if n.odds(n.rates.refused) {
		n.later(n.delay(), func() { answer(zero, cas.ErrUnavailable) })
		return
	}
	lostRequest, lostReply := n.odds(n.rates.lostRequest), n.odds(n.rates.lostReply)
	there := n.delay()
	if n.odds(n.rates.late) {
		there = n.between(0, 3*timeout)
	}
	if there >= timeout {
		uncertain()
		lostReply = true
	}
	n.after(there, func() {
		if lostRequest || n.cut {
			if there < timeout {
				uncertain()
			}
			return
		}
		got, err := apply()
		n.notify()
		back := n.delay()
		if there >= timeout {
			return
		}
		if lostReply || there+back >= timeout {
			uncertain()
			return
		}
		n.after(back, func() {
			if n.cut {
				uncertain()
				return
			}
			n.later(0, func() { answer(got, err) })
		})
	})
}

// relist lists and watches, in turn, as duty 2 has it.
func (n *simNode) relist() {
	n.watching = false
	if n.listing {
		n.listAgain = true
		return
	}
	n.listing = true
	request(n, func() (cas.Snapshot, error) { return n.store.list(), nil },
		func(s cas.Snapshot, err error) {
			n.listing = false
			if err != nil || n.listAgain {
				n.listAgain = false
				n.later(n.between(0, 200*time.Millisecond), n.relist)
				return
			}
			n.watching, n.pos = true, s.Rev
			n.inStream(func() { n.step(Listed{View: layout.Load(n.keys, n.group.Shards, s)}) })
			n.pump()
		})
}

// inStream runs what the watch brings, in its order.
func (n *simNode) inStream(fn func()) {
	if n.paused {
		n.stream = append(n.stream, fn)
		return
	}
	fn()
}

// pump has the watch deliver what it has not.
func (n *simNode) pump() {
	if !n.up || !n.watching || n.pumping || max(n.store.lastLogged(), n.asked) <= n.pos {
		return
	}
	n.pumping = true
	n.after(n.delay(), func() {
		n.pumping = false
		if !n.up || !n.watching || n.cut {
			return
		}
		if n.odds(n.rates.watchBreak) {
			n.trace(n.name, "its watch breaks")
			n.relist()
			return
		}
		asked := n.asked
		changes := n.store.since(n.pos)
		if n.odds(n.rates.partialWatch) && len(changes) > 0 {
			changes = changes[:n.IntN(len(changes))]
			asked = 0
		}
		for _, c := range changes {
			n.pos = c.Rev
			n.inStream(func() { n.step(Watched{Change: c}) })
			if !n.up || !n.watching {
				return
			}
		}
		if asked > n.pos {
			n.pos = asked
			n.inStream(func() { n.step(Watched{Change: cas.Change{Rev: asked}}) })
		}
		n.pump()
	})
}

func (s *modelStore) lastLogged() int64 {
	if len(s.log) == 0 {
		return 0
	}
	return s.log[len(s.log)-1].Rev
}

// heal joins the node with the store again.
func (n *simNode) heal() {
	if !n.cut {
		return
	}
	n.cut = false
	n.trace(n.name, "reaches the store again")
	if n.watching && n.IntN(2) == 0 {
		n.relist()
	}
	n.pump()
}
