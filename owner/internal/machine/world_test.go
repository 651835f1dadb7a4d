package machine

import (
	"container/heap"
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
	rates rates
	calm  bool // no more faults

	nodes  []*simNode // all that ever were
	names  int
	actor  *simNode // whose transaction is being applied
	checks checks
	base   Config        // what nodes have in common
	took   time.Duration // from the last fault to I9

	lessor  time.Duration // its leases end at most so long after they are due
	planner shard.Planner // asks whether anything is left to do

	tracing bool
	lines   []string
	hash    uint64 // of all that happened
}

// rates are the odds of each fault, per occasion. The zero value is a perfect world.
type rates struct {
	slow, lostRequest, lostReply, late, refused    float64 // a request's
	watchBreak, progressLost, partialWatch         float64
	startFails, startHangs, stuck                  float64 // a handler's
	returnsEarly, flushFails, flushHangs           float64
	requestHangs, prepareFails, prepareHangs       float64
	drift                                          int           // parts per million, either way
	chaos                                          time.Duration // mean time between the acts below
	cut, pause, crash, rejoin, takeover, duplicate float64
	leave, drain, pin, lineage, full, evict, erase float64
}

type timers []timer

type timer struct {
	at  time.Duration
	seq int
	fn  func()
}

func (q timers) Len() int { return len(q) }
func (q timers) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q timers) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timers) Push(x any)   { *q = append(*q, x.(timer)) }
func (q *timers) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = timer{}
	*q = (*q)[:len(*q)-1]
	return last
}

func newWorld(seed uint64, shards int) *world {
	w := &world{
		Rand:  rand.New(rand.NewPCG(seed, 0)),
		seed:  seed,
		group: shard.Group{Name: "g", Shards: shards}.WithDefaults(),
		store: newModelStore(),

		lessor: 500 * time.Millisecond,
		hash:   14695981039346656037,
	}
	w.keys = layout.For(w.group)
	w.checks.init(w)
	w.store.changed = w.checks.changed
	return w
}

// after has fn called at a time from now. Calls due at one time come in the order of asking.
func (w *world) after(d time.Duration, fn func()) {
	w.seq++
	heap.Push(&w.queue, timer{w.now + max(0, d), w.seq, fn})
}

// run lets time pass until it is t, or the schedule is over.
func (w *world) run(t time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= t {
		next := heap.Pop(&w.queue).(timer)
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

// mark makes the schedule's hash depend on n.
func (w *world) mark(n uint64) { w.hash = (w.hash ^ n) * 1099511628211 }

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

func (w *world) actorLeases() []cas.LeaseID {
	if w.actor == nil {
		return nil
	}
	return w.actor.leases
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
	for _, n := range w.nodes {
		if n.up {
			n.pump()
		}
	}
}

// expireLeases is the store's lessor: it ends leases up to half a second after they are due, as etcd does, or, in some
// worlds, at once.
func (w *world) expireLeases() {
	for id := cas.LeaseID(1); id <= w.store.last; id++ {
		if l := w.store.leases[id]; l != nil && l.expires <= w.now {
			w.trace("", "lease %d expires", id)
			w.actor = nil
			_ = w.store.revoke("expired", id)
			w.notify()
		}
	}
	w.after(w.between(time.Millisecond, w.lessor), w.expireLeases)
}
