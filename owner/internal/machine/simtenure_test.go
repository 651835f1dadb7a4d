package machine

import (
	"errors"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

var errTest = errors.New("made to fail")

// simTenure is a handler, its gate, and what is inside.
type simTenure struct {
	node  *simNode
	shard int
	epoch shard.Epoch
	lease cas.LeaseID // that it was started under

	isReady, open, closed bool // the gate is closed once, for good
	ended                 bool // the handler's context
	lost                  bool // all contexts
	forced, finished      bool
	returned              bool
	drained               bool
	inside                int
	stuck                 bool     // ignores its contexts
	onEnd, onLost         []func() // what waits for a context to end
}

// doTenure carries out what the machine wants of a tenure.
func (n *simNode) doTenure(e Effect) {
	switch e := e.(type) {
	case Start:
		n.startTenure(e)
	case Open:
		t := n.tenure(e.Shard, e.Epoch)
		if t == nil || !t.isReady {
			n.fail("%s opens shard %d, epoch %v, which is not ready", n.name, e.Shard, e.Epoch)
		}
		n.checks.opening(t)
		t.open = true
	case Close:
		if t := n.tenure(e.Shard, e.Epoch); t != nil {
			t.shut()
		}
	case End:
		if t := n.tenure(e.Shard, e.Epoch); t != nil {
			n.checks.ending(t)
			t.end()
		}
	case Lose:
		if t := n.tenure(e.Shard, e.Epoch); t != nil {
			n.checks.losing(t, e)
			t.shut()
			t.lose()
		}
	case Overdue:
		if t := n.tenure(e.Shard, e.Epoch); t != nil {
			n.checks.overdue(t, e)
			t.lose()
			if e.Forced {
				t.forced = true
				delete(n.tenures, e.Shard)
			}
		}
	case Finish:
		t := n.tenure(e.Shard, e.Epoch)
		if t == nil || !t.returned || !t.drained {
			n.fail("%s finishes shard %d, epoch %v, of which something runs", n.name, e.Shard, e.Epoch)
		}
		t.finished = true
		delete(n.tenures, e.Shard)
	}
}

func (n *simNode) tenure(s int, epoch shard.Epoch) *simTenure {
	if t := n.tenures[s]; t != nil && t.epoch == epoch {
		return t
	}
	return nil
}

// startTenure runs a handler, which behaves as the dice say.
func (n *simNode) startTenure(e Start) {
	t := &simTenure{node: n, shard: e.Token.Shard, epoch: e.Token.Epoch}
	n.checks.starting(t)
	n.tenures[t.shard] = t
	n.at[t.shard] = append(n.at[t.shard], t)
	t.stuck = n.odds(n.rates.stuck)
	fails, hangs := n.odds(n.rates.startFails), n.odds(n.rates.startHangs)
	early, givesUp := n.odds(n.rates.returnsEarly), n.odds(n.rates.returnsEarly)
	n.later(n.delay(), func() {
		switch {
		case t.ended:
			t.leave(nil)
			return
		case fails || !n.checks.seal(t):
			t.leave(errTest)
			return
		case hangs:
			t.wait(&t.onEnd, func() { t.leave(nil) })
			return
		}
		n.later(n.delay(), func() {
			if t.ended {
				t.leave(nil)
				return
			}
			t.isReady = true
			n.step(Ready{Shard: t.shard, Epoch: t.epoch})
			if !n.up {
				return
			}
			if early {
				n.later(n.between(0, 3*time.Second), func() { t.leave(errTest) })
			}
			if givesUp {
				n.later(n.between(0, 3*time.Second), func() { n.step(Failed{Shard: t.shard, Epoch: t.epoch, Err: errTest}) })
			}
			t.wait(&t.onEnd, t.flush)
		})
	})
}

// wait calls fn when the context that list is of has ended, or at once if it has; a stuck handler
// notices late.
func (t *simTenure) wait(list *[]func(), fn func()) {
	over := t.lost || list == &t.onEnd && t.ended
	if over {
		fn()
		return
	}
	*list = append(*list, fn)
}

// flush is what a handler does between its context's end and its return.
func (t *simTenure) flush() {
	n := t.node
	switch {
	case t.stuck:
		n.later(n.between(time.Second, 25*time.Second), func() { t.leave(nil) })
	case t.lost:
		n.later(n.delay(), func() { t.leave(nil) })
	case n.odds(n.rates.flushHangs):
		t.wait(&t.onLost, func() { n.later(n.delay(), func() { t.leave(nil) }) })
	case n.odds(n.rates.flushFails):
		n.later(n.delay(), func() { t.leave(errTest) })
	default:
		n.later(n.delay(), func() {
			n.checks.write(t)
			t.leave(nil)
		})
	}
}

// leave is the handler's return.
func (t *simTenure) leave(err error) {
	if t.returned {
		return
	}
	t.returned = true
	t.forget()
	t.node.step(Returned{Shard: t.shard, Epoch: t.epoch, Err: err})
}

func (t *simTenure) end() {
	t.ended = true
	t.call(&t.onEnd)
}

func (t *simTenure) lose() {
	t.lost = true
	t.end()
	t.call(&t.onLost)
}

func (t *simTenure) call(list *[]func()) {
	fns := *list
	*list = nil
	for _, fn := range fns {
		t.node.later(0, fn)
	}
}

// shut closes the gate, and reports when nobody is inside, once.
func (t *simTenure) shut() {
	if t.closed {
		return
	}
	t.closed = true
	t.empty()
}

func (t *simTenure) empty() {
	if !t.closed || t.inside > 0 || t.drained {
		return
	}
	t.drained = true
	t.node.later(0, func() {
		t.forget()
		t.node.step(Drained{Shard: t.shard, Epoch: t.epoch})
	})
}

func (t *simTenure) forget() {
	if t.returned && t.drained {
		at := t.node.at
		at[t.shard] = slices.DeleteFunc(at[t.shard], func(r *simTenure) bool { return r == t })
	}
}

// admits is the gate's check: open, and clocks compared at the entry (I3).
func (t *simTenure) admits() bool {
	return t.node.up && !t.node.paused && t.open && !t.closed && t.node.local() < t.node.trust
}

// enter is a request at the gate. What is admitted writes once, some time later.
func (n *simNode) enter(t *simTenure) bool {
	if !t.admits() {
		return false
	}
	n.checks.admitted(t)
	t.inside++
	leave := func() {
		t.inside--
		t.empty()
	}
	if n.odds(n.rates.requestHangs) {
		t.wait(&t.onLost, func() {
			d := n.delay()
			if t.stuck {
				d = n.between(time.Second, 25*time.Second)
			}
			n.later(d, leave)
		})
		return true
	}
	n.later(n.between(0, 5*time.Millisecond), func() {
		n.checks.write(t)
		leave()
	})
	return true
}
