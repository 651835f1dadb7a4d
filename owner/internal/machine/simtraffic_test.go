package machine

import (
	"slices"
	"time"
)

// traffic is the users' requests. In a perfect world each has to be served within WaitTimeout.
func (w *world) traffic() {
	w.knock(w.IntN(w.group.Shards), w.now)
	w.after(w.between(0, 2*w.knocks), w.traffic)
}

const waitTimeout = 5 * time.Second // owner.Config's default

// knock tries every node that might let a request for s in, zombies included.
func (w *world) knock(s int, since time.Duration) {
	admitted := false
	for _, t := range slices.Clone(w.at[s]) {
		if t.node.up && t.node.enter(t) {
			admitted = true
		}
	}
	w.checks.knocked(s, admitted, since)
}
