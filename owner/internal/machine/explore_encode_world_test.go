package machine

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

func (e *xEncoder) store(s *xStore) {
	e.rev(s.rev)
	e.flag(s.full)
	e.count(len(s.entries))
	for i := range s.entries {
		e.entry(&s.entries[i])
	}
	e.count(len(s.leases))
	for _, l := range s.leases {
		e.lease(l.id)
		e.number(uint64(max(0, l.expires-e.now)))
	}
	e.count(len(s.log))
	for _, c := range s.log {
		e.rev(c.Rev)
		e.count(len(c.Events))
		for i := range c.Events {
			e.flag(c.Events[i].Deleted)
			e.entry(&c.Events[i].Entry)
		}
	}
}

func (e *xEncoder) entry(en *cas.Entry) {
	e.text(en.Key)
	e.rev(en.Rev)
	e.rev(en.Created)
	e.lease(en.Lease)
	e.text(string(en.Value))
}

// cached writes n, which most actions leave as it was. Worlds that several workers go on from share it.
func (e *xEncoder) cached(n *xNode) {
	code := n.code.Load()
	if code == nil || code.now != e.now {
		part := xEncoder{now: e.now, ids: e.ids}
		part.node(n)
		code = &xCode{e.now, slices.Clip(part.buf), slices.Clip(part.revs), slices.Clip(part.leases)}
		n.code.Store(code)
		e.ids = part.ids
	}
	at := len(e.buf)
	e.buf = append(e.buf, code.buf...)
	for _, r := range code.revs {
		e.revs = append(e.revs, xRef{at + r.at, r.value})
	}
	for _, r := range code.leases {
		e.leases = append(e.leases, xRef{at + r.at, r.value})
	}
}

func (e *xEncoder) node(n *xNode) {
	e.last = n.m.now
	e.text(n.id)
	e.flag(n.evicted)
	e.count(n.broken)
	e.flag(n.paused, n.cut, n.leaving, n.watching, n.stalled, n.relist, n.planSlow, n.c.Takeover)
	if n.watching {
		e.rev(n.pos)
		e.awaited(n.asked, n.m.view)
	}
	// The order of requests says nothing.
	slices.SortFunc(n.requests, byRequest)
	e.count(len(n.requests))
	for i := range n.requests {
		e.request(&n.requests[i], n.m)
	}
	e.count(len(n.tenures))
	for i := range n.tenures {
		e.tenure(&n.tenures[i])
	}
	e.count(len(n.preps))
	for _, p := range n.preps {
		e.count(p.shard)
		e.rev(p.move)
		e.flag(p.slow)
	}
	e.plan(n.plan)
	e.lease(n.lease)
	e.until(n.trust)
	e.ripe(n.bound)
	e.lease(n.tookOver)
	for s, used := range n.used {
		e.flag(n.m.view != nil && n.m.view.Epoch(n.m.view.Claims[s].Rev) > used)
	}
	e.machine(n.m)
}

func byRequest(a, b xRequest) int {
	return cmp.Or(cmp.Compare(requestOrder(a), requestOrder(b)), cmp.Compare(a.sent, b.sent))
}

// requestOrder sorts requests by what they are; a machine's transactions have names that rise.
func requestOrder(r xRequest) uint64 {
	switch e := r.effect.(type) {
	case Relist:
		return 0
	case GrantLease:
		return 1
	case Renew:
		return 2
	case Revoke:
		return 3
	case Commit:
		return 4 + e.ID
	}
	return 0
}

// request of m, or of nobody any more.
func (e *xEncoder) request(r *xRequest, m *Machine) {
	e.byte(byte(r.phase))
	e.flag(r.slow)
	if m != nil && (r.phase == xLost || r.slow) {
		e.until(r.sent + RequestTimeout(m.c.TTL))
	}
	switch q := r.effect.(type) {
	case Renew:
		e.text("renew")
		e.lease(q.Lease)
		e.age(r.sent, m.c.TTL)
	case GrantLease:
		e.text("grant")
		e.age(r.sent, m.c.TTL)
	case Revoke:
		e.text("revoke")
		e.lease(q.Lease)
	case Relist:
		e.text("list")
	case Commit:
		e.text(string(q.Kind))
		if m != nil {
			t := m.txns.open[q.ID]
			e.lease(t.lease)
			e.flag(t.puts, t.view >= m.txns.refusedAt)
			e.age(t.sent, writeFresh)
		}
		e.count(len(q.Shards))
		for _, s := range q.Shards {
			e.count(s)
		}
		if r.phase == xAsked {
			e.txn(q.Txn)
		}
	}
	if r.phase != xAnswered {
		return
	}
	conflict, is := errors.AsType[*cas.ConflictError](r.err)
	switch {
	case r.err == nil:
		e.byte(0)
	case is:
		e.byte(1)
		e.rev(conflict.Rev)
	case errors.Is(r.err, cas.ErrLeaseNotFound):
		e.byte(2)
	case errors.Is(r.err, cas.ErrNoSpace):
		e.byte(3)
	default:
		e.byte(4)
	}
	e.rev(r.rev)
	e.lease(r.lease.ID)
	e.rev(r.lease.Rev)
	e.rev(r.snap.Rev)
	e.count(len(r.snap.Entries))
	for i := range r.snap.Entries {
		e.entry(&r.snap.Entries[i])
	}
}

func (e *xEncoder) txn(t cas.Txn) {
	e.count(len(t.If))
	for _, c := range t.If {
		e.text(c.Key)
		e.byte(byte(c.Attr))
		if c.Attr == cas.Leased {
			e.lease(cas.LeaseID(c.Is))
		} else {
			e.rev(c.Is)
		}
	}
	e.count(len(t.Then))
	for _, o := range t.Then {
		e.text(o.Key)
		e.flag(o.Delete)
		e.lease(o.Lease)
		e.text(string(o.Value))
	}
}

func (e *xEncoder) tenure(t *xTenure) {
	e.count(t.shard)
	e.epoch(t.epoch)
	e.lease(t.lease)
	e.flag(t.ready, t.open, t.closed, t.ended, t.lost, t.returned, t.drained, t.forced)
	e.flag(t.slowReady, t.slowReturn, t.slowDrain)
}

func (e *xEncoder) plan(p *shard.Plan) {
	e.flag(p != nil)
	if p == nil {
		return
	}
	for _, list := range [][]shard.Change{p.Grants, p.Moves, p.Cancels} {
		e.count(len(list))
		for _, c := range list {
			e.count(c.Shard)
			e.text(c.From)
			e.text(c.To)
		}
	}
	e.count(len(p.Unowned))
}

// sealed matters only against epochs that are still about.
func (e *xEncoder) sealed(w *xWorld, s int, sealed shard.Epoch) {
	least := shard.Epoch(1<<63 - 1)
	for _, n := range w.nodes {
		for _, t := range n.tenures {
			if t.shard == s {
				least = min(least, t.epoch)
			}
		}
		if v := n.m.view; v != nil {
			if epoch := v.Epoch(v.Claims[s].Rev); epoch != 0 {
				least = min(least, epoch)
			}
		}
	}
	if sealed < least {
		sealed = 0
	}
	e.epoch(sealed)
}
