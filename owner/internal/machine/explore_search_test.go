package machine

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/tenure-go/tenure/shard"
)

// xSearch explores all worlds that can come from one, breadth first unless it is deep. What it keeps of a world is a hash of 64 bits, from where it was
// reached first, and, once it is calm, where it goes.
type xSearch struct {
	scope  *xScope
	first  *xWorld
	most   int  // states; 0: no limit
	deep   bool // the worlds found last come first: much less memory, and longer ways to what is wrong
	index  map[uint64]uint32
	parent []uint32
	action []uint16 // of the parent's actions
	left   []uint8  // most faults left that it was expanded with

	to    []xEdges // of calm worlds
	edges []uint32
	calm  int
	goals int

	every   int // so many worlds that are known already are audited one
	known   int
	audited int

	level    []xItem
	depth    int // of the state furthest from the first, on the way it was found
	steps    int
	complete bool
	took     time.Duration
	progress func()
	bad      *xBad
}

type xItem struct {
	w     *xWorld
	at    uint32
	depth int32
}

// xBad is what was found wrong: after action, if it isn't negative, in the world at.
type xBad struct {
	at     uint32
	action int
	text   string
}

// xEdges is where in edges the worlds stand that a calm one leads to.
type xEdges struct {
	first uint32
	n     uint8
	goal  bool
}

// xNext is a world that an action leads to.
type xNext struct {
	from   uint32
	action uint16
	w      *xWorld
	hash   uint64
	depth  int32
	calm   bool // from a calm world
}

const noParent = ^uint32(0)

func newXSearch(s *xScope, first *xWorld) *xSearch {
	return &xSearch{
		scope: s, first: first,
		index: make(map[uint64]uint32),
	}
}

// run explores until nothing is new, something is wrong, or there are too many states.
func (x *xSearch) run() {
	began := time.Now()
	var e xEncoder
	x.add(xNext{from: noParent, w: x.first, hash: e.hash(x.first)})
	for len(x.level) > 0 && x.bad == nil && (x.most == 0 || len(x.parent) < x.most) {
		x.expand()
		x.took = time.Since(began)
		if x.progress != nil {
			x.progress()
		}
	}
	x.complete = len(x.level) == 0 && x.bad == nil
}

// add notes a world, to be expanded if it is new or was reached with fewer faults left before. It returns its place.
func (x *xSearch) add(n xNext) uint32 {
	at, known := x.index[n.hash]
	switch {
	case !known:
		at = uint32(len(x.parent))
		x.index[n.hash] = at
		x.parent, x.action, x.left = append(x.parent, n.from), append(x.action, n.action), append(x.left, uint8(n.w.left))
		x.to = append(x.to, xEdges{})
	case n.w.left > int(x.left[at]):
		x.left[at], x.parent[at], x.action[at] = uint8(n.w.left), n.from, n.action
	default:
		if x.known++; x.every > 0 && x.known%x.every == 0 && x.bad == nil {
			x.audit(n.w, at)
		}
		return at
	}
	x.level = append(x.level, xItem{n.w, at, n.depth})
	x.depth = max(x.depth, int(n.depth))
	return at
}

const (
	xChunk = 64
	xTop   = 16 * xChunk
)

// expand takes the level to the next.
func (x *xSearch) expand() {
	level := x.level
	x.level = nil
	if n := len(level) - xTop; x.deep && n > 0 {
		x.level, level = level[:n:n], level[n:]
	}
	workers := runtime.GOMAXPROCS(0)
	type result struct {
		next []xNext
		goal []uint32
		bad  *xBad
	}
	chunks := (len(level) + xChunk - 1) / xChunk
	results := make([]chan result, min(chunks, 4*workers)) // in order, so that a run is like the one before
	for i := range results {
		results[i] = make(chan result, 1)
	}
	work := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			e, planner := new(xEncoder), new(shard.Planner)
			for c := range work {
				var r result
				for _, item := range level[c*xChunk : min(len(level), (c+1)*xChunk)] {
					r.next, r.goal, r.bad = x.expandOne(item, e, planner, r.next, r.goal)
					if r.bad != nil {
						break
					}
				}
				results[c%len(results)] <- r
			}
		})
	}
	sent := 0
	for c := range chunks {
		for sent < chunks && sent-c < len(results) {
			work <- sent
			sent++
		}
		r := <-results[c%len(results)]
		for i := c * xChunk; i < min(len(level), (c+1)*xChunk); i++ {
			level[i].w = nil
		}
		for _, at := range r.goal {
			x.to[at].goal = true
			x.goals++
		}
		x.steps += len(r.next)
		for _, n := range r.next {
			at := x.add(n)
			if n.calm {
				to := &x.to[n.from]
				if to.n == 0 {
					to.first = uint32(len(x.edges))
					x.calm++
				}
				to.n++
				x.edges = append(x.edges, at)
			}
		}
		if r.bad != nil && x.bad == nil {
			x.bad = r.bad
			break
		}
	}
	close(work)
	wg.Wait()
}

func (x *xSearch) expandOne(item xItem, e *xEncoder, p *shard.Planner, next []xNext, goals []uint32) (_ []xNext, _ []uint32, bad *xBad) {
	w := item.w
	if w.calm && w.reached(p) {
		return next, append(goals, item.at), nil
	}
	var buf [96]xAction
	k := -1
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			bad = &xBad{item.at, k, v.text}
		default:
			panic(fmt.Sprintf("after %v: %v", x.path(item.at, k), v))
		}
	}()
	for i, a := range w.actions(buf[:0]) {
		k = i
		n := w.after(a, p, nil)
		next = append(next, xNext{item.at, uint16(k), n, e.hash(n), item.depth + 1, w.calm})
		if w.calm || w.left == 0 || a.kind.fault() && w.left == 1 {
			continue
		}
		for f := range n.sent * len(xFates) {
			k = i | (f+1)<<8
			if b, ok := w.fated(a, f); ok {
				n := w.after(b, p, nil)
				next = append(next, xNext{item.at, uint16(k), n, e.hash(n), item.depth + 1, false})
			}
		}
	}
	if w.calm && k < 0 {
		return next, goals, &xBad{item.at, -1, "I9: stuck: nothing more happens, and the goal is not reached"}
	}
	return next, goals, nil
}

// fated is a with something that happens to a request that it sends.
func (w *xWorld) fated(a xAction, f int) (xAction, bool) {
	a.fate, a.of = xFates[f%len(xFates)], int8(f/len(xFates))
	return a, w.scope.coarse && w.scope.allowed(a.fate)
}

// path is the actions that lead to the world at, and from there to action.
func (x *xSearch) path(at uint32, action int) []uint16 {
	var path []uint16
	if action >= 0 {
		path = append(path, uint16(action))
	}
	for ; x.parent[at] != noParent; at = x.parent[at] {
		path = append(path, x.action[at])
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path
}

// trace plays a path again, and tells what happens.
func (x *xSearch) trace(path []uint16) (lines []string) {
	defer func() {
		if v, ok := recover().(violation); ok {
			lines = append(lines, "! "+v.text)
		}
	}()
	x.replay(path, func(w *xWorld, a xAction) func(string, ...any) {
		lines = append(lines, fmt.Sprintf("%v: %v", w.now-x.first.now, a))
		return func(format string, args ...any) { lines = append(lines, "      "+fmt.Sprintf(format, args...)) }
	})
	return lines
}

// settle is the world that a perfect run leads to in which one node after the other boots: every age has
// come to where it makes no more difference, and nodes renew at different times.
func (s *xScope) settle() *xWorld {
	var e xEncoder
	var p shard.Planner
	w := newXWorld(s)
	for i := range s.nodes {
		w.boot(string(rune('a'+i)), false)
		w = w.play(&p, w.now+3*time.Second)
	}
	w = w.play(&p, w.now+steady+2*s.c.TTL)
	if !w.reached(&p) {
		panic("the group does not settle")
	}
	e.hash(w)
	return w
}

// play lets w run without faults until nothing is on its way at a time past t.
func (w *xWorld) play(p *shard.Planner, t time.Duration) *xWorld {
	var e xEncoder
	for {
		e.hash(w)
		a := w.actions(nil)[0]
		if a.kind == xAdvance && w.next() > t {
			return w
		}
		w = w.after(a, p, nil)
	}
}
