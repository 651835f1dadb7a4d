package machine

import (
	"fmt"
	"slices"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// step gives n's machine an event and carries out what it wants. n is the run's own.
func (w *xRun) step(n *xNode, ev Event) {
	n.m = n.m.clone()
	if w.tell != nil && worthTelling(ev) {
		w.tell("%s%d %s", n.id, n.seqn, tellEvent(n.m.keys.Prefix(), ev))
	}
	for _, e := range n.m.Step(w.now, ev) {
		if w.tell != nil {
			w.tell("%s%d   -> %s", n.id, n.seqn, xTellEffect(n.m.keys.Prefix(), e))
		}
		w.do(n, e)
	}
	clear(n.m.out)
	n.m.out = n.m.out[:0]
	if len(n.m.dirty) > 0 && n.m.view != nil && !n.m.ended {
		w.fail("%s: shards %v were not looked at", n.id, n.m.dirty)
	}
}

// do carries out an effect: the driver's duties.
func (w *xRun) do(n *xNode, e Effect) {
	switch e := e.(type) {
	case GrantLease, Renew, Revoke, Commit:
		w.send(n, e)
	case Progress:
		if !n.cut {
			n.asked = w.store.rev
		}
	case Relist:
		w.list(n)
	case MakePlan:
		if n.plan != nil {
			w.fail("I9: %s begins a plan while another is under way: their answers can't be told apart", n.id)
		}
		plan := w.planner.Plan(e.In)
		n.plan, n.planSlow = &plan, false
	case Joined:
		n.created = e.Created
	case Trust:
		n.trust = e.Until
		if n.trust > n.bound {
			w.fail("I3: %s trusts until %v: at most %v", n.id, n.trust, n.bound)
		}
	case Exit:
		w.exited(n, e.Err)
		w.gone(n)
	case Prepare:
		n.preps = append(n.preps, xPrep{shard: e.Shard, move: e.Move})
	case Unprepare:
		n.preps = slices.DeleteFunc(n.preps, func(p xPrep) bool { return p.shard == e.Shard })
	default:
		w.doTenure(n, e)
	}
}

func (w *xRun) send(n *xNode, e Effect) {
	r := xRequest{effect: e, sent: w.now, by: xSender{id: n.id, seqn: n.seqn, created: n.created, leases: n.leases}}
	switch e := e.(type) {
	case Commit:
		w.sending(n, e)
	case Revoke:
		w.revoking(n, e.Lease)
	}
	w.put(n, r)
}

// put sends r on its way.
func (w *xRun) put(n *xNode, r xRequest) {
	fate := xKind(0)
	if int(w.action.of) == w.sent {
		fate = w.action.fate
	}
	w.sent++
	switch {
	case n.cut || fate == fLoseRequest:
		r.phase = xLost
	case fate == fLate:
		r.slow = true
	case fate == fRefuse:
		r.phase, r.err = xAnswered, cas.ErrUnavailable
	case w.scope.coarse:
		w.arrive(&r)
		r.phase, r.slow = xAnswered, fate == fSlowReply
		if fate == fLoseReply {
			r.phase = xLost
		}
	}
	n.requests = append(n.requests, r)
}

func (w *xRun) doTenure(n *xNode, e Effect) {
	switch e := e.(type) {
	case Start:
		w.starting(n, e)
		n.tenures = append(n.tenures, xTenure{shard: e.Token.Shard, epoch: e.Token.Epoch, lease: n.lease})
		slices.SortFunc(n.tenures, func(a, b xTenure) int { return int(int64(a.epoch - b.epoch)) })
	case Open:
		t := w.tenure(n, e.Shard, func(t *xTenure) bool { return t.epoch == e.Epoch })
		if !t.ready || t.open || t.closed {
			w.fail("%s opens shard %d, epoch %v: %+v", n.id, e.Shard, e.Epoch, *t)
		}
		t.open = true
	case Close:
		w.tenure(n, e.Shard, func(t *xTenure) bool { return t.epoch == e.Epoch }).closed = true
	case End:
		t := w.tenure(n, e.Shard, func(t *xTenure) bool { return t.epoch == e.Epoch })
		if !t.closed || !t.drained {
			w.fail("I5: %s ends the handler of shard %d with requests inside", n.id, t.shard)
		}
		t.ended = true
	case Lose:
		t := w.tenure(n, e.Shard, func(t *xTenure) bool { return t.epoch == e.Epoch })
		t.closed, t.ended, t.lost = true, true, true
	case Overdue:
		for k := range n.tenures { // it may have ended just now
			if t := &n.tenures[k]; t.shard == e.Shard && t.epoch == e.Epoch {
				t.closed, t.ended, t.lost, t.forced = true, true, true, e.Forced
			}
		}
	case Finish:
		t := w.tenure(n, e.Shard, func(t *xTenure) bool { return t.epoch == e.Epoch })
		if !t.returned || !t.drained {
			w.fail("%s finishes shard %d, epoch %v, of which something runs", n.id, e.Shard, e.Epoch)
		}
		n.tenures = slices.DeleteFunc(n.tenures, func(t xTenure) bool { return t.shard == e.Shard && t.epoch == e.Epoch })
	}
}

func (w *xRun) tenure(n *xNode, s int, is func(*xTenure) bool) *xTenure {
	for k := range n.tenures {
		if t := &n.tenures[k]; t.shard == s && is(t) {
			return t
		}
	}
	w.fail("%s speaks of a tenure of shard %d that is not there", n.id, s)
	return nil
}

// handler has tenure k of n do its next thing, all well.
func (w *xRun) handler(kind xKind, n *xNode, k int) {
	t := &n.tenures[k]
	switch kind {
	case xReady:
		t.slowReady = false
		if t.epoch < w.sealed[t.shard] || n.broken&(1<<t.shard) != 0 {
			w.returns(n, k, errTest) // the seal is refused, or the state can't be loaded
			return
		}
		w.sealed = slices.Clone(w.sealed)
		w.sealed[t.shard] = t.epoch
		t.ready = true
		w.step(n, Ready{Shard: t.shard, Epoch: t.epoch})
	case xDrain:
		t.slowDrain, t.drained = false, true
		w.step(n, Drained{Shard: t.shard, Epoch: t.epoch})
		n.forget()
	case xReturn:
		w.returns(n, k, nil)
	case xEnded:
		t.drained = true
		w.step(n, Drained{Shard: t.shard, Epoch: t.epoch})
		w.returns(n, k, nil)
	}
}

func (w *xRun) returns(n *xNode, k int, err error) {
	t := &n.tenures[k]
	t.returned, t.slowReturn, t.slowReady = true, false, false
	w.step(n, Returned{Shard: t.shard, Epoch: t.epoch, Err: err})
	n.forget()
}

// forget drops tenures that the machine has given up on, once nothing of them runs.
func (n *xNode) forget() {
	n.tenures = slices.DeleteFunc(n.tenures, func(t xTenure) bool { return t.forced && t.returned && t.drained })
}

// fault has something go wrong.
func (w *xRun) fault(a xAction) {
	if a.node < 0 {
		w.worldFault(a.kind)
		return
	}
	n := w.own(int(a.node))
	k := int(a.i)
	keys := w.scope.keys
	switch a.kind {
	case fLoseRequest, fLoseReply:
		n.requests[k].phase, n.requests[k].slow = xLost, false
	case fLate, fSlowReply:
		n.requests[k].slow = true
	case fRefuse:
		n.requests[k].phase, n.requests[k].err = xAnswered, cas.ErrUnavailable
	case fStall:
		n.stalled = true
	case fBreak:
		w.list(n)
	case fPause:
		n.paused = true
	case fCut:
		n.cut = true
		for k := range n.requests {
			n.requests[k].phase, n.requests[k].slow = xLost, false
		}
	case fCrash:
		w.gone(n)
		w.reboots = append(slices.Clip(w.reboots), n.id)
	case fEvict:
		w.excuse(n.lease)
		w.endLease(n.lease)
	case fErase:
		w.operator(cas.Delete(keys.Member(n.id)))
	case fDrain:
		w.operator(cas.Put(keys.Drain(n.id), layout.Encode(layout.Drain{Format: 1, Why: "test"})))
	case fPin:
		w.operator(cas.Put(keys.Pin(k), layout.Encode(layout.Pin{Format: 1, Member: n.id})))
	case fLeave:
		n.leaving = true
		w.step(n, Leave{})
	case fTakeover:
		w.boot(n.id, true)
	case fPrepareFails:
		p := n.preps[k]
		n.preps = slices.Delete(n.preps, k, k+1)
		w.step(n, Prepared{Shard: p.shard, Move: p.move, Err: errTest})
	case fPrepareSlow:
		n.preps[k].slow = true
	case fPlanSlow:
		n.planSlow = true
	default:
		w.handlerFault(a.kind, n, k)
	}
}

func (w *xRun) handlerFault(kind xKind, n *xNode, k int) {
	t := &n.tenures[k]
	switch kind {
	case fSlowReady:
		t.slowReady = true
	case fSlowDrain:
		t.slowDrain = true
	case fSlowReturn:
		t.slowReturn = true
	case fBroken:
		n.broken |= 1 << t.shard
		w.returns(n, k, errTest)
	case fStartFails, fReturnsEarly:
		w.returns(n, k, errTest)
	case fGiveUp:
		w.step(n, Failed{Shard: t.shard, Epoch: t.epoch, Err: errTest})
	}
}

func (w *xRun) worldFault(kind xKind) {
	switch kind {
	case fFull:
		w.store.full = true
	case fLineage:
		e := w.store.get(w.scope.keys.Config())
		c, _ := layout.Decode[layout.Config](e.Value)
		c.Lineage += 33
		w.operator(cas.Put(e.Key, layout.Encode(c)))
	case fElection:
		w.store.leases = slices.Clone(w.store.leases)
		for i := range w.store.leases {
			w.store.leases[i].expires = w.now + w.store.leases[i].ttl
		}
	}
}

func xTellEffect(prefix string, e Effect) string {
	if c, ok := e.(Commit); ok {
		ifs, thens := describe(prefix, c.Txn)
		return fmt.Sprintf("%s%v #%d if %q then %q", c.Kind, c.Shards, c.ID, ifs, thens)
	}
	return fmt.Sprintf("%T %+v", e, e)
}
