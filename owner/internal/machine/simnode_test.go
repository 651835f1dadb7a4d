package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// simNode is a process: a machine, and the driver's duties played by the world.
type simNode struct {
	*world
	id   string
	name string // in traces: the id and which process under it
	c    Config
	m    *Machine
	seqn int

	born    int // the store's incarnation then
	up      bool
	paused  bool
	how     pause
	since   time.Duration // when it was paused
	halts   int           // how often its clock stood still
	cut     bool          // off the store
	leaving bool
	err     error // of Exit

	offset time.Duration
	drift  int64 // parts per million
	armed  time.Duration
	tick   int

	// What came while it was paused. The kernel kept it; in what order the process will
	// take it is open, but the watch's is kept.
	frozen []func()
	stream []func()

	watching  bool
	watches   int           // how many there were
	blind     bool          // it lost events
	blindAt   time.Duration // the last time that it had
	planning  int           // plans under way
	lives     int           // the store's incarnation that this one is connected to
	pos       int64         // revision that the watch has reached
	asked     int64         // progress was asked for at this revision
	pumping   bool
	listing   bool
	listAgain bool
	list      cas.Snapshot // the last one

	lease cas.LeaseID
	trust time.Duration // the gates'
	bound time.Duration // what trust may be at most (I3), by the world's own books

	tenures  map[int]*simTenure // by shard: the one that the machine speaks of
	used     map[int]shard.Epoch
	leases   []cas.LeaseID // all that it was granted, as far as it knows
	created  int64         // of its member record
	tookOver cas.LeaseID

	second   time.Duration // since then
	refusals int           // so many transactions were refused
}

// boot starts a process.
func (w *world) boot(id string, c Config) *simNode {
	w.names++
	c.Group = w.group
	c.GroupID = fmt.Sprintf("group-%d", w.names)
	c.Member.ID = id
	n := &simNode{
		world: w, id: id, name: fmt.Sprintf("%s%d", id, w.names), seqn: w.names, c: c, m: New(c), up: true, born: w.gen,
		tenures: make(map[int]*simTenure), used: make(map[int]shard.Epoch),
	}
	if w.rates.drift {
		n.drift = int64(w.IntN(2*maxDrift) - maxDrift)
	}
	n.offset = w.between(0, time.Hour)
	w.nodes = append(w.nodes, n)
	w.trace(n.name, "boots: takeover=%v prepares=%v weight=%d drift=%dppm", c.Takeover, c.Member.Prepares, c.Member.Weight, n.drift)
	n.relist()
	return n
}

// local is the node's own clock.
func (n *simNode) local() time.Duration {
	return n.offset + n.now + n.now*time.Duration(n.drift)/1e6
}

// when is the world's time at which the node's clock shows t.
func (n *simNode) when(t time.Duration) time.Duration {
	return (t-n.offset)*1e6/time.Duration(1e6+n.drift) + 2
}

// later has fn run in the process: not while it is paused, never once it is gone.
func (n *simNode) later(d time.Duration, fn func()) {
	n.after(d, func() {
		switch {
		case !n.up:
		case n.paused:
			n.frozen = append(n.frozen, fn)
		default:
			fn()
		}
	})
}

// step is duty 1 to 3.
func (n *simNode) step(ev Event) {
	n.steps++
	n.mark(uint64(n.now)<<8 | uint64(n.seqn))
	if n.record != nil {
		n.record(n, ev)
	}
	if n.tracing && worthTelling(ev) {
		n.trace(n.name, "%s", tellEvent(n.keys.Prefix(), ev))
	}
	for _, e := range n.m.Step(n.local(), ev) {
		if n.tracing {
			n.tellEffect(e)
		}
		n.do(e)
		if !n.up {
			return
		}
	}
	n.arm()
}

// arm asks for the next Tick.
func (n *simNode) arm() {
	next := n.m.Next()
	if next == 0 {
		return
	}
	at := max(n.now, n.when(next))
	if n.armed != 0 && n.armed <= at {
		return
	}
	n.armAt(at)
}

func (n *simNode) armAt(at time.Duration) {
	n.armed = at
	n.tick++
	mine := n.tick
	n.later(at-n.now, func() {
		if mine != n.tick {
			return
		}
		n.armed = 0
		if next := n.m.Next(); next == 0 || next > n.local() {
			n.arm()
			return
		}
		n.step(Tick{})
		if next := n.m.Next(); n.up && next != 0 && next <= n.local() {
			n.fail("%s: after a Tick at %v, Next is %v: the driver would spin", n.name, n.local(), next)
		}
	})
}

// do carries out an effect.
func (n *simNode) do(e Effect) {
	switch e := e.(type) {
	case GrantLease:
		sent, halts := n.local(), n.halts
		request(n, func() (cas.Lease, error) { return n.store.grant(n.now, e.TTL), nil },
			func(l cas.Lease, err error) {
				if err == nil {
					n.lease, n.bound = l.ID, sent+l.TTL-Margin(l.TTL)
					n.leases = append(n.leases, l.ID)
					if n.halts != halts {
						n.checks.ended[l.ID] = true
					}
				}
				n.step(LeaseGranted{Sent: sent, Lease: l, Err: err})
			})
	case Renew:
		sent := n.local()
		request(n, func() (cas.Lease, error) { return n.store.renew(n.now, e.Lease) },
			func(l cas.Lease, err error) {
				l.ID = e.Lease
				if err == nil && l.ID == n.lease {
					n.bound = max(n.bound, sent+l.TTL-Margin(l.TTL))
				}
				n.step(Renewed{Sent: sent, Lease: l, Err: err})
			})
	case Revoke:
		n.checks.revoking(n, e.Lease)
		request(n, func() (struct{}, error) {
			n.world.actor = n
			n.checks.evicted(e.Lease)
			return struct{}{}, n.store.revoke("revoked", e.Lease)
		}, func(_ struct{}, err error) { n.step(Revoked{Lease: e.Lease, Err: err}) })
	case Commit:
		n.checks.sending(n, e)
		request(n, func() (int64, error) {
			n.world.actor = n
			rev, err := n.store.commit(string(e.Kind), e.Txn)
			if err != nil {
				n.checks.refused(n, e)
			}
			if n.tracing {
				n.trace(n.name, "      %s%v #%d at the store: rev %d, %v", e.Kind, e.Shards, e.ID, rev, err)
			}
			return rev, err
		}, func(rev int64, err error) { n.step(Committed{ID: e.ID, Rev: rev, Err: err}) })
	case Progress:
		n.after(n.delay(), func() {
			if !n.cut && !n.odds(n.rates.progressLost) {
				n.asked = max(n.asked, n.store.rev)
				n.pump()
			}
		})
	case Relist:
		n.relist()
	case MakePlan:
		plan := n.world.planner.Plan(e.In)
		d := n.delay()
		if n.odds(n.rates.slow) {
			d = n.between(0, 3*time.Second)
		}
		if n.planning++; n.planning > 1 {
			n.fail("I9: %s begins a plan while another is under way: their answers can't be told apart", n.name)
		}
		n.later(d, func() {
			n.planning--
			n.step(Planned{Plan: plan})
		})
	case Joined:
		n.created = e.Created
	case Note, Unprepare:
	case Trust:
		n.trust = e.Until
		n.checks.trusting(n)
	case Exit:
		n.err = e.Err
		n.stop()
		n.checks.exited(n)
		n.giveBack()
	case Prepare:
		n.prepare(e)
	default:
		n.doTenure(e)
	}
}

func (n *simNode) prepare(e Prepare) {
	d, err := n.between(0, 50*time.Millisecond), error(nil)
	switch {
	case n.odds(n.rates.prepareHangs):
		d, err = n.c.PrepareTimeout, errTest
	case n.odds(n.rates.prepareFails):
		err = errTest
	}
	n.later(d, func() { n.step(Prepared{Shard: e.Shard, Move: e.Move, Err: err}) })
}

// stop ends the process, and all that runs in it.
func (n *simNode) stop() {
	n.up = false
	n.frozen, n.stream = nil, nil
	clear(n.tenures)
	for s := range n.at {
		n.at[s] = slices.DeleteFunc(n.at[s], func(t *simTenure) bool { return t.node == n })
	}
}

func (n *simNode) crash() {
	n.trace(n.name, "crashes")
	n.stop()
}

func (n *simNode) leave() {
	if n.leaving {
		return
	}
	n.leaving = true
	n.trace(n.name, "is told to leave")
	n.later(0, func() { n.step(Leave{}) })
}

// giveBack revokes the lease of a node that ended because it can't go on, as the driver does.
func (n *simNode) giveBack() {
	lease := n.m.Lease()
	if n.err == nil || lease == 0 {
		return
	}
	request(n, func() (struct{}, error) {
		n.world.actor = n
		return struct{}{}, n.store.revoke("revoked", lease)
	}, func(struct{}, error) {})
}
