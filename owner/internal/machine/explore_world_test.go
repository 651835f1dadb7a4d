package machine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// xWorld is a small cluster at one moment: real machines, a model store, everything that is on its way between
// them, and the handlers. A world never changes: each action makes another one, which shares what did not change. Nothing happens
// by itself, and nothing at random: what may happen next is in actions.
type xWorld struct {
	scope   *xScope
	now     time.Duration
	store   xStore
	nodes   []*xNode      // processes that live
	ghosts  []xRequest    // nobody waits for their answer any more; each may yet be applied, or never
	reboots []string      // ids of processes that crashed, and may come back
	sealed  []shard.Epoch // the users' resource: the epoch that each shard was last sealed with
	left    int           // faults that may yet be
	limit   time.Duration // when what is faulty has to have ended
	calm    bool          // no more faults, and what was faulty has ended
	seq     int           // processes so far
	sent    int           // requests that the action before this world sent
}

// xScope is how large a world is explored, and from where.
type xScope struct {
	name     string
	nodes    int
	shards   int
	faults   int  // in all, of any kinds
	coarse   bool // see actions
	settled  bool // begins in a group that serves, not with its first boot
	allowed  func(xKind) bool
	prepares bool // nodes warm up before they take a shard
	unfenced bool // the resource takes any write: shows what I6 is for
	takeover bool // a process that comes back may take its id over

	group shard.Group
	keys  layout.Keys
	c     Config
}

func (s xScope) ready() *xScope {
	s.group = shard.Group{Name: "g", Shards: s.shards}.WithDefaults()
	s.keys = layout.For(s.group)
	s.c = Config{
		Group: s.group, GroupID: "id",
		Member: layout.Member{
			Member:   shard.Member{Version: "test", Weight: 1},
			Prepares: s.prepares,
		},
		TTL: 30 * time.Second, StartTimeout: 2 * time.Second, PrepareTimeout: 2 * time.Second,
		DrainTimeout: 2 * time.Second, MinMembers: s.nodes, Settle: 200 * time.Millisecond,
	}
	if s.allowed == nil {
		s.allowed = func(xKind) bool { return true }
	}
	return &s
}

// xNode is a process: its machine, and what the driver of package owner does for it.
type xNode struct {
	id   string
	seqn int
	c    Config
	m    *Machine

	paused, cut, leaving bool
	broken               int  // shards that this process can't start, as bits
	evicted              bool // its lease was ended by somebody else: only the fence is left (I6)

	watching bool
	stalled  bool  // its watch is late
	pos      int64 // what it has brought
	asked    int64 // progress that was asked for
	relist   bool  // once more, after the one under way

	requests []xRequest
	tenures  []xTenure // those of which something runs
	preps    []xPrep
	plan     *shard.Plan // made, not yet delivered
	planSlow bool

	lease    cas.LeaseID
	leases   []cas.LeaseID
	trust    time.Duration // the gates'
	bound    time.Duration // what it may be at most (I3)
	created  int64
	tookOver cas.LeaseID
	used     []shard.Epoch // by shard: highest that was started here, or given away

	code *atomic.Pointer[xCode] // as last written, by whichever worker did; anew with each change
}

// xRequest is a request to the store.
type xRequest struct {
	effect Effect
	sent   time.Duration
	by     xSender
	phase  xPhase
	slow   bool // time doesn't wait for it

	rev   int64 // of the answer
	lease cas.Lease
	err   error
	snap  cas.Snapshot
}

// xSender is who sent a transaction, for those that are judged when they are applied.
type xSender struct {
	id      string
	seqn    int
	created int64
	leases  []cas.LeaseID
}

type xPhase uint8

const (
	xAsked    xPhase = iota // on its way
	xAnswered               // applied; the answer is on its way
	xLost                   // the request or its answer is lost, and the node will hear that it is uncertain
)

// xTenure is a handler and its gate.
type xTenure struct {
	shard int
	epoch shard.Epoch
	lease cas.LeaseID

	ready, open, closed, ended, lost bool
	returned, drained, forced        bool

	slowReady, slowReturn, slowDrain bool // it hangs
}

type xPrep struct {
	shard int
	move  int64
	slow  bool
}

// newXWorld is a world in which the processes are about to boot.
func newXWorld(s *xScope) *xWorld {
	w := &xWorld{
		scope: s, now: time.Hour, store: newXStore(), left: s.faults,
		sealed: make([]shard.Epoch, s.shards),
	}
	if !s.settled {
		for i := range s.nodes {
			w.boot(string(rune('a'+i)), false)
		}
	}
	return w
}

func (w *xWorld) boot(id string, takeover bool) {
	w.seq++
	c := w.scope.c
	c.Member.ID, c.Takeover = id, takeover
	n := &xNode{id: id, seqn: w.seq, c: c, m: New(c), used: make([]shard.Epoch, w.scope.shards), code: new(atomic.Pointer[xCode])}
	n.requests = []xRequest{{effect: Relist{}, sent: w.now, by: xSender{id: n.id}}}
	w.nodes = append(slices.Clone(w.nodes), n)
}

// clone is a world that may be changed before anybody sees it. Its nodes are still w's: see own.
func (w *xWorld) clone() *xWorld {
	c := *w
	c.nodes = slices.Clone(w.nodes)
	return &c
}

// own makes node i of a fresh clone its own.
func (w *xWorld) own(i int) *xNode {
	n := *w.nodes[i]
	n.code = new(atomic.Pointer[xCode])
	n.requests, n.tenures, n.preps = slices.Clone(n.requests), slices.Clone(n.tenures), slices.Clone(n.preps)
	w.nodes[i] = &n
	return &n
}

// gone takes a process out of the world, whose requests may still arrive.
func (w *xWorld) gone(n *xNode) {
	w.nodes = slices.DeleteFunc(w.nodes, func(o *xNode) bool { return o == n })
	for _, r := range n.requests {
		w.haunt(r)
	}
}

// haunt: nobody waits for r any more, but it may arrive.
func (w *xWorld) haunt(r xRequest) {
	if r.phase != xAsked {
		return
	}
	switch r.effect.(type) {
	case Commit, Revoke:
		w.ghosts = append(slices.Clone(w.ghosts), r)
	}
}

// outstanding: a fault has not ended yet.
func (w *xWorld) outstanding() bool {
	if len(w.ghosts) > 0 || len(w.reboots) > 0 || w.store.full {
		return true
	}
	for _, n := range w.nodes {
		if n.paused || n.cut || n.stalled || n.planSlow || n.broken != 0 ||
			slices.ContainsFunc(n.requests, func(r xRequest) bool { return r.slow }) ||
			slices.ContainsFunc(n.preps, func(p xPrep) bool { return p.slow }) ||
			slices.ContainsFunc(n.tenures, func(t xTenure) bool { return t.slowReady || t.slowReturn || t.slowDrain }) {
			return true
		}
	}
	return false
}

// calmed is w after all faults: what is paused goes on, what hangs is let go, what may come late never comes. Only who
// can't start a shard still can't.
func (w *xWorld) calmed() *xWorld {
	w = w.clone()
	w.calm, w.left = true, 0
	w.ghosts, w.reboots, w.store.full = nil, nil, false
	for i := range w.nodes {
		n := w.own(i)
		n.paused, n.cut, n.stalled, n.planSlow = false, false, false, false
		for k := range n.requests {
			n.requests[k].slow = false
		}
		for k := range n.preps {
			n.preps[k].slow = false
		}
		for k := range n.tenures {
			t := &n.tenures[k]
			t.slowReady, t.slowReturn, t.slowDrain = false, false, false
		}
	}
	return w
}
