package machine

import "time"

// strikePlanner has something happen to the planner, and then to its successors.
func (w *world) strikePlanner(times int) {
	if w.calm || times == 0 {
		return
	}
	oldest, id, ok := w.sees().Oldest()
	if !ok {
		return
	}
	for _, n := range w.live() {
		if n.id != id || n.created != oldest.Created {
			continue
		}
		w.trace("op", "strikes the planner")
		switch w.IntN(6) {
		case 0:
			n.isolate(n.between(0, 2*n.c.TTL))
		case 1:
			n.halt(stopped)
		case 2:
			w.evict(n.lease)
		case 3:
			n.leave()
		default:
			n.crash()
		}
	}
	w.after(w.between(0, time.Second), func() { w.strikePlanner(times - 1) })
}

// rollingRestart replaces every process in turn, as a deployment does. Each gets a second to start, and leaves in good order
// unless it is too slow; or all are killed.
func (w *world) rollingRestart() {
	old := w.live()
	kill, surge := w.IntN(4) == 0, w.IntN(3) == 0
	w.trace("op", "restarts %d processes: kill=%v surge=%v", len(old), kill, surge)
	var next func(i int)
	next = func(i int) {
		if w.calm || w.restoring || i == len(old) {
			return
		}
		n := old[i]
		if !n.up {
			next(i + 1)
			return
		}
		id := n.id
		if surge {
			id = w.fresh()
			w.start(id)
		}
		if kill {
			n.crash()
		} else {
			n.leave()
		}
		w.whenGone(n, 3*time.Second, func() {
			if !surge {
				w.start(id)
			}
			w.after(w.between(0, time.Second), func() { next(i + 1) })
		})
	}
	next(0)
}

// whenGone calls fn once n has ended, and ends it if it takes too long.
func (w *world) whenGone(n *simNode, patience time.Duration, fn func()) {
	switch {
	case w.calm:
	case !n.up:
		fn()
	case patience <= 0:
		n.crash()
		fn()
	default:
		const poll = 100 * time.Millisecond
		w.after(poll, func() { w.whenGone(n, patience-poll, fn) })
	}
}

// crashLoop has the process under id die soon after each start. Its replacement has the same id or, as a pod in a
// deployment, another.
func (w *world) crashLoop(id string, times int) {
	if w.calm || times == 0 {
		return
	}
	if n := w.aliveUnder(id); n != nil {
		n.crash()
	}
	if w.IntN(2) == 0 {
		id = w.fresh()
	}
	w.after(w.between(0, 300*time.Millisecond), func() {
		if w.calm {
			return
		}
		w.start(id)
		w.after(w.between(0, 1500*time.Millisecond), func() { w.crashLoop(id, times-1) })
	})
}
