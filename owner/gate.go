package owner

import "sync/atomic"

// gate counts who is inside, and admits until it is closed. It is one atomic word, so that entering
// takes no lock, "nobody is inside" is a fact, and once closed it never opens again. The
// zero value is not open yet.
type gate struct{ word atomic.Uint64 }

const (
	gateOpen   = 1 << 62
	gateClosed = 1 << 63
	gateCount  = gateOpen - 1
)

// open admits, unless the gate was closed before.
func (g *gate) open() {
	g.word.CompareAndSwap(0, gateOpen)
}

// enter counts one in, if the gate is open.
func (g *gate) enter() bool {
	for {
		w := g.word.Load()
		if w&^gateCount != gateOpen {
			return false
		}
		if g.word.CompareAndSwap(w, w+1) {
			return true
		}
	}
}

// exit counts one out and reports whether the gate is closed and nobody is left.
func (g *gate) exit() (empty bool) {
	return g.word.Add(^uint64(0)) == gateClosed
}

// close admits nobody any more. first: it was not closed before. empty: and nobody is inside; else
// the last one's exit says so.
func (g *gate) close() (first, empty bool) {
	for {
		w := g.word.Load()
		if w&gateClosed != 0 {
			return false, false
		}
		n := w & gateCount
		if g.word.CompareAndSwap(w, gateClosed|n) {
			return true, n == 0
		}
	}
}

// inside counts those who are in.
func (g *gate) inside() int { return int(g.word.Load() & gateCount) }
