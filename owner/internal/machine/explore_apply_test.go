package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// xRun is one making of a world from another.
type xRun struct {
	*xWorld
	action  xAction
	planner *shard.Planner
	tell    func(format string, args ...any) // nil: nobody listens
}

func (w *xRun) fail(format string, args ...any) {
	panic(violation{fmt.Sprintf(format, args...)})
}

// after is the world after a. It panics with a violation if an invariant breaks.
func (w *xWorld) after(a xAction, planner *shard.Planner, tell func(string, ...any)) *xWorld {
	if a.kind == xCalm {
		return w.calmed()
	}
	r := &xRun{w.clone(), a, planner, tell}
	r.sent = 0
	if a.fate != 0 {
		r.left--
	}
	if a.fate != 0 || a.kind.fault() {
		r.limit = w.now + 2*w.scope.c.TTL
	}
	switch {
	case a.kind.fault():
		r.left--
		r.fault(a)
	case a.node >= 0:
		r.inNode(a, r.own(int(a.node)))
	default:
		r.inWorld(a)
	}
	for r.scope.coarse && r.prompt() {
	}
	r.check()
	r.trim()
	if !r.calm && r.left == 0 && !r.outstanding() {
		r.calm = true // it makes no difference any more
	}
	return r.xWorld
}

// prompt delivers an answer that is there and not slow, and reports whether there was one.
func (w *xRun) prompt() bool {
	for i, n := range w.nodes {
		if n.paused {
			continue
		}
		for k, q := range n.requests {
			if q.phase == xAnswered && !q.slow {
				w.answer(w.own(i), k)
				return true
			}
		}
	}
	return false
}

// trim forgets events that every watch has brought.
func (w *xRun) trim() {
	least := w.store.rev
	for _, n := range w.nodes {
		if n.watching {
			least = min(least, n.pos)
		}
		for _, r := range n.requests {
			if r.snap.Rev != 0 {
				least = min(least, r.snap.Rev)
			}
		}
	}
	w.store.forget(least)
}

func (w *xRun) inWorld(a xAction) {
	switch a.kind {
	case xAdvance:
		w.now = w.next()
		if w.tell != nil {
			w.tell("%v passes", w.now-time.Hour)
		}
	case xExpire:
		w.endLease(w.store.leases[a.i].id)
	case xHaunt:
		r := w.ghosts[a.i]
		w.ghosts = slices.Delete(slices.Clone(w.ghosts), int(a.i), int(a.i)+1)
		w.arrive(&r)
	case xSpace:
		w.store.full = false
	case xReboot, xRebootTake:
		id := w.reboots[a.i]
		w.reboots = slices.Delete(slices.Clone(w.reboots), int(a.i), int(a.i)+1)
		w.boot(id, a.kind == xRebootTake)
	}
}

// endLease ends a lease that nobody renewed.
func (w *xRun) endLease(id cas.LeaseID) {
	_ = w.store.revoke(id, func(cas.Entry, cas.Event) {})
}

func (w *xRun) inNode(a xAction, n *xNode) {
	switch a.kind {
	case xApply:
		r := &n.requests[a.i]
		if n.cut {
			r.phase, r.slow = xLost, false
			return
		}
		r.slow = false
		w.arrive(r)
		r.phase = xAnswered
	case xReply:
		w.answer(n, int(a.i))
	case xTimeout:
		r := n.requests[a.i]
		n.requests = slices.Delete(n.requests, int(a.i), int(a.i)+1)
		w.haunt(r)
		r.err, r.lease, r.rev = cas.ErrUncertain, cas.Lease{}, 0
		w.deliver(n, r)
	case xWatch:
		w.watch(n)
	case xTick:
		w.step(n, Tick{})
		if next := n.m.Next(); next != 0 && next <= w.now && !n.m.ended {
			w.fail("%s: after a Tick at %v, Next is %v: the driver would spin", n.id, w.now, next)
		}
	case xReady, xDrain, xReturn, xEnded:
		w.handler(a.kind, n, int(a.i))
	case xPrepared:
		p := n.preps[a.i]
		n.preps = slices.Delete(n.preps, int(a.i), int(a.i)+1)
		w.step(n, Prepared{Shard: p.shard, Move: p.move})
	case xPlanned:
		plan := *n.plan
		n.plan, n.planSlow = nil, false
		w.step(n, Planned{Plan: plan})
	case xContinue:
		n.paused = false
	case xHeal:
		n.cut = false
	case xUnstall:
		n.stalled = false
	case xUndrain:
		w.operator(cas.Delete(w.scope.keys.Drain(n.id)))
	}
}

func (w *xRun) watch(n *xNode) {
	n.stalled = false
	for until := w.store.rev; n.watching && n.pos < until && slices.Contains(w.nodes, n); {
		c, ok := w.store.since(n.pos)
		switch {
		case ok:
			n.pos = c.Rev
			w.step(n, Watched{Change: c})
		case n.asked > n.pos:
			n.pos = n.asked
			w.step(n, Watched{Change: cas.Change{Rev: n.asked}})
		default:
			return
		}
		if !w.scope.coarse {
			return
		}
	}
}

// answer delivers the answer to request k of n.
func (w *xRun) answer(n *xNode, k int) {
	r := n.requests[k]
	n.requests = slices.Delete(n.requests, k, k+1)
	if n.cut {
		r.phase, r.slow = xLost, false
		n.requests = append(n.requests, r)
		return
	}
	w.deliver(n, r)
}

func (w *xRun) deliver(n *xNode, r xRequest) {
	switch e := r.effect.(type) {
	case GrantLease:
		if r.err == nil {
			n.evicted = false
			n.lease, n.bound = r.lease.ID, r.sent+r.lease.TTL-Margin(r.lease.TTL)
			n.leases = append(slices.Clip(n.leases), r.lease.ID)
		}
		w.step(n, LeaseGranted{Sent: r.sent, Lease: r.lease, Err: r.err})
	case Renew:
		l := r.lease
		l.ID = e.Lease
		if r.err == nil && l.ID == n.lease {
			n.bound = max(n.bound, r.sent+l.TTL-Margin(l.TTL))
		}
		w.step(n, Renewed{Sent: r.sent, Lease: l, Err: r.err})
	case Revoke:
		w.step(n, Revoked{Lease: e.Lease, Err: r.err})
	case Commit:
		w.step(n, Committed{ID: e.ID, Rev: r.rev, Err: r.err})
	case Relist:
		if r.err != nil || n.relist {
			n.relist = false
			w.list(n)
			return
		}
		n.watching, n.pos = true, r.snap.Rev
		w.step(n, Listed{View: layout.Load(w.scope.keys, w.scope.shards, r.snap)})
	}
}

// arrive is a request at the store.
func (w *xRun) arrive(r *xRequest) {
	switch e := r.effect.(type) {
	case GrantLease:
		r.lease = w.store.grant(w.now, e.TTL)
	case Renew:
		r.lease, r.err = w.store.renew(w.now, e.Lease)
	case Revoke:
		if !slices.Contains(r.by.leases, e.Lease) {
			w.excuse(e.Lease)
		}
		r.err = w.store.revoke(e.Lease, func(cas.Entry, cas.Event) {})
	case Commit:
		r.rev, r.err = w.store.commit(e.Txn, func(before cas.Entry, ev cas.Event) { w.judge(r.by, e.Kind, before, ev) })
	case Relist:
		r.snap = w.store.list()
	}
	if w.tell != nil {
		w.tell("      %T of %s at the store: now revision %d, %v", r.effect, r.by.id, w.store.rev, r.err)
	}
}

// list asks for the whole group.
func (w *xRun) list(n *xNode) {
	n.watching, n.stalled = false, false
	if slices.ContainsFunc(n.requests, func(r xRequest) bool { _, ok := r.effect.(Relist); return ok }) {
		n.relist = true
		return
	}
	w.put(n, xRequest{effect: Relist{}, sent: w.now, by: xSender{id: n.id}})
}

// operator changes keys by hand.
func (w *xRun) operator(ops ...cas.Op) {
	w.store.apply(ops, func(cas.Entry, cas.Event) {})
}
