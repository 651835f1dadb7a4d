package machine

import (
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// request plays one request to the store. apply runs there at most once, perhaps after the answer;
// answer runs in the process exactly once.
func request[R any](n *simNode, apply func() (R, error), answer func(R, error)) {
	var zero R
	sent, timeout, gen := n.now, RequestTimeout(n.c.TTL), n.gen
	uncertain := func() {
		n.later(sent+timeout-n.now, func() { answer(zero, cas.ErrUncertain) })
	}
	if n.odds(n.rates.refused) {
		n.later(n.delay(), func() { answer(zero, cas.ErrUnavailable) })
		return
	}
	lostRequest, lostReply := n.odds(n.rates.lostRequest), n.odds(n.rates.lostReply)
	there := n.delay() + n.fixed // which includes the commit
	if n.odds(n.rates.late) {
		there = n.between(0, 3*timeout)
	}
	if there >= timeout {
		uncertain()
		lostReply = true
	}
	n.after(there, func() {
		if lostRequest || n.cut || n.down || n.gen != gen {
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
			if n.cut || n.gen != gen {
				uncertain()
				return
			}
			n.later(0, func() { answer(got, err) })
		})
	})
}

// relist lists and watches, in turn, as duty 2 has it.
func (n *simNode) relist() {
	n.watching, n.asked = false, 0
	if n.listing {
		n.listAgain = true
		return
	}
	n.listing = true
	var gen int
	request(n, func() (cas.Snapshot, error) {
		gen = n.gen
		return n.store.list(), nil
	},
		func(s cas.Snapshot, err error) {
			n.listing = false
			if err != nil || n.listAgain {
				n.listAgain = false
				n.later(n.between(0, 200*time.Millisecond), n.relist)
				return
			}
			n.watching, n.pos, n.lives = true, s.Rev, gen // of the store that was listed: no other answers the watch
			n.watches++
			n.inStream(func() { n.listed(s) })
			n.pump()
		})
}

// listed gives the machine a list. If it shows that the store went back, the node has to end.
func (n *simNode) listed(s cas.Snapshot) {
	back := false
	if v := n.m.View(); v != nil {
		back = s.Rev < v.Rev || s.Cluster != v.Cluster
	}
	n.list = s
	if n.blind {
		n.blind, n.blindAt = false, n.now
	}
	n.step(Listed{View: layout.Load(n.keys, n.group.Shards, s)})
	if back && n.up {
		n.fail("case 6: %s goes on though the store is at revision %d", n.name, s.Rev)
	}
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
	if !n.up || !n.watching || n.pumping || n.lives == n.gen && max(n.store.lastLogged(), n.asked) <= n.pos {
		return
	}
	n.pumping = true
	n.after(n.delay(), func() {
		n.pumping = false
		if n.up && n.watching && !n.cut && !n.down {
			n.deliver()
		}
	})
}

func (n *simNode) deliver() {
	switch {
	case n.lives != n.gen:
		n.breaks("its connection is gone")
		return
	case n.odds(n.rates.watchBreak):
		n.breaks("its watch breaks")
		return
	case n.pos < n.store.dropped:
		n.checks.count["watch compacted"]++
		n.breaks("its watch wants what was compacted away")
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
		if n.odds(n.rates.lostEvent) {
			c.Events = n.lose(c.Events)
		}
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
}

func (n *simNode) breaks(why string) {
	n.trace(n.name, "%s", why)
	n.relist()
}

// lose has the watch leave events out, as etcd's did around compaction. Package follow finds that out by a digest of the
// store and lists again; till then the view is not just old but wrong. What the node believes of its lease may be
// wrong as well, so until that ends only the fence is left (I6).
func (n *simNode) lose(events []cas.Event) []cas.Event {
	n.checks.count["events lost"]++
	n.trace(n.name, "its watch loses events")
	if n.lease != 0 {
		n.checks.ended[n.lease] = true
	}
	n.blind = true
	watch := n.watches
	n.after(n.between(0, 3*time.Second), func() {
		if n.up && n.watching && n.watches == watch {
			n.breaks("follow finds its watch incomplete")
		}
	})
	if n.IntN(2) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(events), func(e cas.Event) bool { return e.Deleted })
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
