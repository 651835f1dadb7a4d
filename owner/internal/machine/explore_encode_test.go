package machine

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// xEncoder writes a world down so that two worlds that can't be told apart by anything that may happen from
// here on are the same bytes. Times are written as what is left until them, and what is past as past;
// revisions and leases by their rank among those that stand anywhere in the world; the names of transactions not at all. So a group that
// only renews its leases is a small cycle of states, and a livelock is a cycle too.
type xEncoder struct {
	buf    []byte
	now    time.Duration // the world's
	last   time.Duration // of the machine's last Step
	revs   []xRef
	leases []xRef
	ranks  []int64
	ids    []string
}

// xCode is a node as written at a time.
type xCode struct {
	now          time.Duration
	buf          []byte
	revs, leases []xRef // places in buf
}

// xRef is a place in buf that a rank goes to.
type xRef struct {
	at    int
	value int64
}

// hash of w, but for the number of faults that may yet be.
func (e *xEncoder) hash(w *xWorld) uint64 {
	e.buf, e.revs, e.leases = e.buf[:0], e.revs[:0], e.leases[:0]
	e.now = w.now
	e.flag(w.calm)
	if w.outstanding() {
		e.number(uint64(max(0, w.limit-w.now)))
	}
	e.store(&w.store)
	e.count(len(w.nodes))
	for _, n := range w.nodes {
		e.cached(n)
	}
	e.count(len(w.ghosts))
	for i := range w.ghosts {
		e.request(&w.ghosts[i], nil)
	}
	e.count(len(w.reboots))
	for _, id := range w.reboots {
		e.text(id)
	}
	for s, epoch := range w.sealed {
		e.sealed(w, s, epoch)
	}
	e.rank(e.revs)
	e.rank(e.leases)
	return xxhash.Sum64(e.buf)
}

func (e *xEncoder) rank(refs []xRef) {
	e.ranks = append(e.ranks[:0], 0)
	for _, r := range refs {
		e.ranks = append(e.ranks, r.value)
	}
	slices.Sort(e.ranks)
	e.ranks = slices.Compact(e.ranks)
	for _, r := range refs {
		at, _ := slices.BinarySearch(e.ranks, r.value)
		e.buf[r.at] = byte(at)
	}
}

func (e *xEncoder) byte(b byte)   { e.buf = append(e.buf, b) }
func (e *xEncoder) count(n int)   { e.buf = append(e.buf, byte(n), byte(n>>8)) }
func (e *xEncoder) text(s string) { e.count(len(s)); e.buf = append(e.buf, s...) }
func (e *xEncoder) number(n uint64) {
	e.buf = append(e.buf, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32), byte(n>>40), byte(n>>48), byte(n>>56))
}

func (e *xEncoder) flag(b ...bool) {
	var bits byte
	for i, b := range b {
		if b {
			bits |= 1 << i
		}
	}
	e.byte(bits)
}

// rev of 0 is none, and keeps the lowest rank.
func (e *xEncoder) rev(rev int64) {
	e.revs = append(e.revs, xRef{len(e.buf), rev})
	e.byte(0)
}

// awaited is a revision that matters only as long as the view is below it.
func (e *xEncoder) awaited(rev int64, v *layout.View) {
	if v == nil || rev > v.Rev {
		e.rev(rev)
		return
	}
	e.rev(0)
}

func (e *xEncoder) lease(id cas.LeaseID) {
	e.leases = append(e.leases, xRef{len(e.buf), int64(id)})
	e.byte(0)
}

func (e *xEncoder) epoch(epoch shard.Epoch) {
	e.byte(byte(epoch.Lineage()))
	e.rev(epoch.Revision())
}

// until is a time to come: never, past and seen by the machine, past but not yet seen, or so much left.
func (e *xEncoder) until(t time.Duration) {
	switch {
	case t == 0:
		e.byte(0)
	case t <= e.last:
		e.byte(1)
	case t <= e.now:
		e.byte(2)
	default:
		e.byte(3)
		e.number(uint64(t - e.now))
	}
}

// ripe is like until for times of which never and seen are the same.
func (e *xEncoder) ripe(t time.Duration) {
	if t <= e.last {
		t = 0
	}
	e.until(t)
}

// age is how long ago t was, which makes no difference from most on.
func (e *xEncoder) age(t, most time.Duration) { e.number(uint64(min(e.now-t, most))) }
