package machine

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// world is a cluster of machines on one model store, under a virtual clock and one seeded
// scheduler. It plays the driver's duties for every node (doc.go), the network, the users' handlers
// and requests, and the operator. Nothing in it runs by itself: a seed replays exactly.
type world struct {
	*rand.Rand
	seed  uint64
	now   time.Duration
	queue timers
	seq   int
	steps int

	group shard.Group
	keys  layout.Keys
	store *modelStore
	judge *layout.View // see sees
	told  int64        // revision of the last change that watches were told of
	rates rates
	calm  bool // no more faults

	down      bool        // the store has no leader: it does nothing, and no lease ends
	gen       int         // how often the store was restored: no connection outlives that
	backup    *modelStore // the store as it was once; nil: there is no backup
	restoring bool        // the store was restored, and no process may start until the operator has raised the lineage
	lineage   int         // highest that was ever in force

	nodes  []*simNode     // all that ever were
	at     [][]*simTenure // by shard: all of which something runs
	names  int
	most   int      // processes that live at a time
	actor  *simNode // whose transaction is being applied
	acted  uint64   // a bit for each kind of act that there was
	checks checks
	base   Config        // what nodes have in common
	took   time.Duration // from the last fault to I9

	lessor  time.Duration // its leases end at most so long after they are due
	knocks  time.Duration // mean time between two requests
	poll    time.Duration // between two looks whether I9 holds
	fixed   time.Duration // what each message takes; 0: it is drawn
	planner shard.Planner // everybody's: it is deterministic, and keeping its ring saves time

	record  func(*simNode, Event) // sees each event before it is taken; nil: nobody
	tracing bool
	lines   []string
	hash    uint64 // of all that happened
}

func newWorld(seed uint64, shards int) *world {
	w := &world{
		Rand:  rand.New(rand.NewPCG(seed, 0)),
		seed:  seed,
		group: shard.Group{Name: "g", Shards: shards}.WithDefaults(),
		store: newModelStore(),

		at:     make([][]*simTenure, shards),
		most:   6,
		lessor: 500 * time.Millisecond,
		poll:   100 * time.Millisecond,
		knocks: 20 * time.Millisecond,
		hash:   fnvOffset,
	}
	w.keys = layout.For(w.group)
	w.checks.init(w)
	w.store.changed = w.checks.changed
	return w
}

// sees is the store as it is, but for the transaction that is being applied.
func (w *world) sees() *layout.View {
	if w.judge == nil {
		w.judge = layout.Load(w.keys, w.group.Shards, w.store.list())
	}
	var t layout.Touched
	for _, c := range w.store.since(w.judge.Rev) {
		w.judge.Apply(c, &t)
	}
	return w.judge
}

// after has fn called at a time from now. Calls due at one time come in the order of asking.
func (w *world) after(d time.Duration, fn func()) {
	w.seq++
	w.queue.push(timer{w.now + max(0, d), w.seq, fn})
}

// run lets time pass until it is t, or the schedule is over.
func (w *world) run(t time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= t {
		next := w.queue.pop()
		w.now = next.at
		next.fn()
	}
	w.now = t
}

// odds is true with probability p, and never once faults have ended.
func (w *world) odds(p float64) bool { return p > 0 && !w.calm && w.Float64() < p }

// between is a random time in [a, b).
func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.Int64N(int64(b-a)))
}

// delay is how long a message takes one way.
func (w *world) delay() time.Duration {
	if w.fixed != 0 {
		return w.fixed
	}
	if w.odds(w.rates.slow) {
		return w.between(time.Millisecond, 800*time.Millisecond)
	}
	return w.between(50*time.Microsecond, 700*time.Microsecond)
}

// trace notes a line. Its arguments are rendered only if somebody will read it.
func (w *world) trace(node string, format string, args ...any) {
	if w.tracing {
		w.lines = append(w.lines, fmt.Sprintf("%11.6f %-3s %s", w.now.Seconds(), node, fmt.Sprintf(format, args...)))
	}
}

// FNV-1a: maphash differs from process to process, and a seed has to replay in any.
const fnvOffset, fnvPrime = 14695981039346656037, 1099511628211

// mark makes the schedule's hash depend on n.
func (w *world) mark(n uint64) { w.hash = (w.hash ^ n) * fnvPrime }

func hashOf(s string) uint64 {
	h := uint64(fnvOffset)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// violation is a broken invariant. The runner catches it.
type violation struct{ text string }

func (w *world) fail(format string, args ...any) {
	v := violation{fmt.Sprintf(format, args...)}
	w.trace("!", "%s", v.text)
	panic(v)
}

func (w *world) live() []*simNode {
	var live []*simNode
	for _, n := range w.nodes {
		if n.up {
			live = append(live, n)
		}
	}
	return live
}

// operator changes the store from outside.
func (w *world) operator(why string, ops ...cas.Op) {
	w.actor = nil
	w.trace("op", "%s", why)
	if _, err := w.store.commit(why, cas.Txn{Then: ops}); err != nil {
		w.trace("op", "%s: %v", why, err)
	}
	w.notify()
}

// notify has every watch look for changes.
func (w *world) notify() {
	if w.told == w.store.lastLogged() {
		return
	}
	w.told = w.store.lastLogged()
	for _, n := range w.nodes {
		if n.up {
			n.pump()
		}
	}
}

// expireLeases is the store's lessor: it ends leases up to half a second after they are due, as etcd does, or, in some
// worlds, at once. Without a leader it does nothing.
func (w *world) expireLeases() {
	for id := cas.LeaseID(1); id <= w.store.last && !w.down; id++ {
		if l := w.store.leases[id]; l != nil && l.expires <= w.now {
			if w.tracing {
				w.trace("", "lease %d expires", id)
			}
			w.actor = nil
			_ = w.store.revoke("expired", id)
			w.notify()
		}
	}
	w.after(w.between(time.Millisecond, w.lessor), w.expireLeases)
}
