package machine

import (
	"fmt"
	"hash/fnv"
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

	up      bool
	paused  bool
	cut     bool // off the store
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
	pos       int64 // revision that the watch has reached
	asked     int64 // progress was asked for at this revision
	pumping   bool
	listing   bool
	listAgain bool

	lease   cas.LeaseID
	trust   time.Duration // the gates'
	bound   time.Duration // what trust may be at most (I3), by the world's own books
	planner shard.Planner

	tenures  map[int]*simTenure // by shard: the one that the machine speaks of
	running  []*simTenure       // and all of which something runs
	used     map[int]shard.Epoch
	leases   []cas.LeaseID // all that it was granted, as far as it knows
	created  int64         // of its member record
	tookOver cas.LeaseID
}

// boot starts a process.
func (w *world) boot(id string, c Config) *simNode {
	w.names++
	c.Group = w.group
	c.GroupID = fmt.Sprintf("group-%d", w.names)
	c.Member.ID = id
	n := &simNode{
		world: w, id: id, name: fmt.Sprintf("%s%d", id, w.names), seqn: w.names, c: c, m: New(c), up: true,
		tenures: make(map[int]*simTenure), used: make(map[int]shard.Epoch),
	}
	if w.rates.drift > 0 {
		n.drift = int64(w.IntN(2*w.rates.drift) - w.rates.drift)
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

// at is the world's time at which the node's clock shows t.
func (n *simNode) at(t time.Duration) time.Duration {
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
	at := max(n.now, n.at(next))
	if n.armed != 0 && n.armed <= at {
		return
	}
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
		sent := n.local()
		request(n, func() (cas.Lease, error) { return n.store.grant(n.now, e.TTL), nil },
			func(l cas.Lease, err error) {
				if err == nil {
					n.lease, n.bound = l.ID, sent+l.TTL-Margin(l.TTL)
					n.leases = append(n.leases, l.ID)
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
			n.trace(n.name, "      %s%v #%d at the store: rev %d, %v", e.Kind, e.Shards, e.ID, rev, err)
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
		plan := n.planner.Plan(e.In)
		d := n.delay()
		if n.odds(n.rates.slow) {
			d = n.between(0, 3*time.Second)
		}
		n.later(d, func() { n.step(Planned{Plan: plan}) })
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
	n.frozen, n.stream, n.running = nil, nil, nil
	clear(n.tenures)
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

// resume continues a paused process. First of all it lets requests in, as one whose loop has not run
// yet would.
func (n *simNode) resume() {
	if !n.up || !n.paused {
		return
	}
	n.paused = false
	n.trace(n.name, "continues")
	for _, t := range slices.Clone(n.running) {
		n.enter(t)
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
	if n.up {
		n.armed = 0
		n.arm()
	}
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}
