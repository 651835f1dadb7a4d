package machine

import (
	"fmt"
	"slices"

	"github.com/tenure-go/tenure/shard"
)

// audit compares a world with the one that was reached before it and has the same hash: whatever may happen from here on has
// to lead both to the same. It is how the encoder is held to its claim that nothing it leaves out matters.
func (x *xSearch) audit(w *xWorld, at uint32) {
	if w.left != int(x.left[at]) {
		return
	}
	x.audited++
	first := x.replay(x.path(at, -1), nil)
	a, b := successors(first), successors(w)
	if !slices.Equal(a, b) {
		x.bad = &xBad{at, -1, fmt.Sprintf("two worlds look alike and are not: %d, %d actions\n%v\n%v", len(a), len(b), first.actions(nil), w.actions(nil))}
	}
}

func successors(w *xWorld) []uint64 {
	var e xEncoder
	var p shard.Planner
	e.hash(w)
	var to []uint64
	for _, a := range w.actions(nil) {
		to = append(to, e.hash(w.after(a, &p, nil)))
	}
	slices.Sort(to)
	return to
}

// replay is the world that a path leads to.
func (x *xSearch) replay(path []uint16, tell func(w *xWorld, a xAction) func(string, ...any)) *xWorld {
	var e xEncoder
	var p shard.Planner
	w := x.first
	e.hash(w)
	for _, k := range path {
		a := w.actions(nil)[k&0xff]
		if k > 0xff {
			a, _ = w.fated(a, int(k>>8)-1)
		}
		var to func(string, ...any)
		if tell != nil {
			to = tell(w, a)
		}
		w = w.after(a, &p, to)
		e.hash(w)
	}
	return w
}
