package machine

import (
	"fmt"
	"slices"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// admits is the gate's check of t.
func (t *stageTenure) admits() bool {
	return t.of.up && !t.of.paused && t.open && !t.closed && t.of.now < t.of.trust
}

// stageTenure is a handler, its gate and the requests inside.
type stageTenure struct {
	of    *process
	shard int
	epoch shard.Epoch
	lease cas.LeaseID

	open, closed, ended, drained, returned, forced bool
	told                                           bool // to return
	inside                                         int
}

// doTenure carries out what the machine wants of a tenure.
func (p *process) doTenure(e Effect) {
	switch e := e.(type) {
	case Start:
		p.start(e)
	case Open:
		t := p.tenure(e.Shard, e.Epoch)
		p.checks.opening(t)
		t.open = true
		p.fact("%s %d opens", p.name, e.Shard)
	case Close:
		p.fact("%s %d closes", p.name, e.Shard)
		p.tenure(e.Shard, e.Epoch).shut()
	case End:
		t := p.tenure(e.Shard, e.Epoch)
		if !t.closed || t.inside > 0 {
			p.failf("I5: the context of %s's handler of %d ends with %d requests inside", p.name, e.Shard, t.inside)
		}
		p.fact("%s %d ends", p.name, e.Shard)
		t.end()
	case Lose:
		p.fact("%s %d lost", p.name, e.Shard)
		t := p.tenure(e.Shard, e.Epoch)
		t.shut()
		t.end()
	case Overdue:
		t := p.tenure(e.Shard, e.Epoch)
		t.shut()
		t.end()
		p.fact("%s %d overdue", p.name, e.Shard)
		if e.Forced {
			p.fact("%s %d forced", p.name, e.Shard)
			t.forced = true
			delete(p.tenures, e.Shard)
			if p.c.NeverForce {
				p.failf("%s forces %d, NeverForce", p.name, e.Shard)
			}
		}
	case Finish:
		t := p.tenure(e.Shard, e.Epoch)
		if !t.returned || !t.drained {
			p.failf("%s finishes %d, of which something runs", p.name, e.Shard)
		}
		p.fact("%s %d finishes", p.name, e.Shard)
		delete(p.tenures, e.Shard)
	}
}

// tenure is the one of s under epoch, which has to be there.
func (p *process) tenure(s int, epoch shard.Epoch) *stageTenure {
	t := p.tenures[s]
	if t == nil || t.epoch != epoch {
		p.failf("%s has no tenure of %d under %v", p.name, s, epoch)
	}
	return t
}

// start runs a handler. It seals the resource, and says Ready, unless something is broken.
func (p *process) start(e Start) {
	t := &stageTenure{of: p, shard: e.Token.Shard, epoch: e.Token.Epoch, lease: p.lease}
	p.checks.starting(t)
	p.tenures[t.shard] = t
	p.running = append(p.running, t)
	p.fact("%s %d starts", p.name, t.shard)
	p.local(fmt.Sprintf("ready %s %d", p.name, t.shard), func() {
		if t.ended || t.returned {
			return
		}
		if err := p.fails("start", t.shard); err != nil {
			t.leave(err)
			return
		}
		if err := p.checks.seal(t); err != nil {
			t.leave(err)
			return
		}
		p.step(Ready{Shard: t.shard, Epoch: t.epoch})
	})
}

// end ends the handler's context: it returns.
func (t *stageTenure) end() {
	t.ended = true
	if t.told || t.returned {
		return
	}
	t.told = true
	t.of.local(fmt.Sprintf("return %s %d", t.of.name, t.shard), func() { t.leave(t.of.fails("flush", t.shard)) })
}

// leave is the handler's return.
func (t *stageTenure) leave(err error) {
	if t.returned {
		return
	}
	t.returned = true
	t.forget()
	t.of.step(Returned{Shard: t.shard, Epoch: t.epoch, Err: err})
}

// shut closes the gate.
func (t *stageTenure) shut() {
	if !t.closed {
		t.closed = true
		t.empty()
	}
}

// empty reports when nobody is inside, once.
func (t *stageTenure) empty() {
	if !t.closed || t.inside > 0 || t.drained {
		return
	}
	t.drained = true
	t.of.local(fmt.Sprintf("drained %s %d", t.of.name, t.shard), func() {
		t.forget()
		t.of.step(Drained{Shard: t.shard, Epoch: t.epoch})
	})
}

func (t *stageTenure) forget() {
	if t.returned && t.drained {
		t.of.running = slices.DeleteFunc(t.of.running, func(r *stageTenure) bool { return r == t })
	}
}
