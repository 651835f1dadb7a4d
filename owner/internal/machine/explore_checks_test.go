package machine

import (
	"errors"
	"slices"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// The invariants, by the explored world's own books.

// check holds in every state: whoever admits has the claim (I3), and the fence takes nothing from an older epoch after a newer
// one's (I6).
func (w *xRun) check() {
	for _, n := range w.nodes {
		if n.paused {
			continue
		}
		for k := range n.tenures {
			t := &n.tenures[k]
			if w.scope.accepts(w.sealed[t.shard], t) && t.epoch < w.sealed[t.shard] {
				w.fail("I6: %s writes to shard %d under epoch %v after one sealed it with %v", n.id, t.shard, t.epoch, w.sealed[t.shard])
			}
			if !t.open || t.closed || w.now >= n.trust || n.evicted {
				continue
			}
			if w.now >= n.bound {
				w.fail("I3: %s admits to shard %d at %v: trust is over at %v", n.id, t.shard, w.now, n.bound)
			}
			if e := w.store.get(w.scope.keys.Claim(t.shard)); e.Rev != t.epoch.Revision() || e.Lease != t.lease {
				w.fail("I3: %s admits to shard %d under epoch %v: the claim is %+v", n.id, t.shard, t.epoch, e)
			}
		}
	}
}

// excuse: lease ends by another's doing than its holder's. Only the fence is left (I6).
func (w *xRun) excuse(lease cas.LeaseID) {
	for i, n := range w.nodes {
		if n.lease == lease && !n.evicted {
			w.own(i).evicted = true
		}
	}
}

// judge sees each change that a transaction makes, before it shows.
func (w *xRun) judge(by xSender, kind Kind, before cas.Entry, ev cas.Event) {
	what, s, _ := w.scope.keys.Parse(ev.Key)
	if !ev.Deleted && ev.Lease == 0 && what != layout.ConfigKey {
		w.fail("%s puts %s under no lease", kind, ev.Key)
	}
	switch kind {
	case Grant, Move, Cancel, Reap:
		if oldest := w.oldest(); oldest.Key != w.scope.keys.Member(by.id) || oldest.Created != by.created {
			w.fail("I7: %s of %s%d lands, which is not the oldest member: that is %s", kind, by.id, by.seqn, oldest.Key)
		}
	}
	switch what {
	case layout.ClaimKey:
		w.judgeClaim(by, kind, s, before, ev)
	case layout.MoveKey:
		w.judgeMove(kind, s, before, ev)
	case layout.MemberKey:
		if kind == Join && before.Rev != 0 {
			w.fail("JOIN overwrites %s", ev.Key)
		}
		if kind == Update && before.Lease != ev.Lease {
			w.fail("UPDATE takes over %s", ev.Key)
		}
	}
}

func (w *xRun) judgeClaim(by xSender, kind Kind, s int, before cas.Entry, ev cas.Event) {
	own := before.Rev != 0 && slices.Contains(by.leases, before.Lease)
	ok := false
	switch kind {
	case Grant:
		ok = !ev.Deleted && before.Rev == 0
	case Transfer:
		mv := w.store.get(w.scope.keys.Move(s))
		ok = !ev.Deleted && own && mv.Rev != 0 && mv.Lease == ev.Lease
	case Reclaim:
		ok = !ev.Deleted && own && before.Lease == ev.Lease
	case Release:
		ok = ev.Deleted && own
	case Reap:
		_, member := w.memberOf(before.Lease)
		ok = ev.Deleted && !member
	}
	if !ok {
		w.fail("I1, I8: %s of %s%d changes the claim of shard %d from %+v to %+v", kind, by.id, by.seqn, s, before, ev)
	}
	if kind == Grant || kind == Transfer {
		if m, ok := w.memberOf(ev.Lease); !ok || m.Draining {
			w.fail("case 16: %s gives shard %d to lease %d, member %v %+v", kind, s, ev.Lease, ok, m)
		}
	}
	if !ev.Deleted && ev.Rev <= before.Rev {
		w.fail("I2: the claim of shard %d goes from revision %d to %d", s, before.Rev, ev.Rev)
	}
}

func (w *xRun) judgeMove(kind Kind, s int, before cas.Entry, ev cas.Event) {
	switch {
	case ev.Deleted:
	case kind == Move && before.Rev != 0:
		w.fail("the move of shard %d is overwritten by another", s)
	case kind == Move:
		if m, ok := w.memberOf(ev.Lease); !ok || m.Draining {
			w.fail("case 16: shard %d is to move to lease %d, member %v %+v", s, ev.Lease, ok, m)
		}
		if w.store.get(w.scope.keys.Claim(s)).Rev == 0 {
			w.fail("shard %d is to move, but nobody holds it", s)
		}
	case kind == SetReady && before.Lease != ev.Lease:
		w.fail("READY for another's move of shard %d", s)
	}
}

func (w *xRun) oldest() cas.Entry {
	var oldest cas.Entry
	for _, e := range w.store.entries {
		if kind, _, _ := w.scope.keys.Parse(e.Key); kind == layout.MemberKey && (oldest.Rev == 0 || e.Created < oldest.Created) {
			oldest = e
		}
	}
	return oldest
}

func (w *xRun) memberOf(lease cas.LeaseID) (layout.Member, bool) {
	for _, e := range w.store.entries {
		if kind, _, _ := w.scope.keys.Parse(e.Key); kind == layout.MemberKey && e.Lease == lease {
			m, err := layout.Decode[layout.Member](e.Value)
			return m, err == nil
		}
	}
	return layout.Member{}, false
}

// sending sees a transaction when it is sent (I5).
func (w *xRun) sending(n *xNode, e Commit) {
	if err := e.Txn.Validate(); err != nil {
		w.fail("case 19: %s%v: %v", e.Kind, e.Shards, err)
	}
	for _, o := range e.Txn.Then {
		kind, s, _ := n.m.keys.Parse(o.Key)
		if kind != layout.ClaimKey || e.Kind == Grant || e.Kind == Reap {
			continue
		}
		for _, t := range n.tenures {
			if t.shard == s && !t.forced {
				w.fail("I5: %s sends %s of shard %d while its handler of epoch %v runs", n.id, e.Kind, s, t.epoch)
			}
		}
		if e.Kind == Transfer || e.Kind == Release {
			epoch, _ := shard.NewEpoch(n.m.view.Config.Lineage, n.m.view.Claims[s].Rev)
			n.used = slices.Clone(n.used)
			n.used[s] = max(n.used[s], epoch)
		}
	}
}

// revoking: own trust is zero, and every gate closed, before the own lease is revoked; another's only by Takeover.
func (w *xRun) revoking(n *xNode, lease cas.LeaseID) {
	if slices.Contains(n.leases, lease) {
		for _, t := range n.tenures {
			if t.open && !t.closed && w.now < n.trust || lease == n.lease && !t.closed && !t.forced {
				w.fail("%s revokes its lease while the gate of shard %d is open", n.id, t.shard)
			}
		}
		if lease == n.lease && n.trust != 0 {
			w.fail("%s revokes its lease while it trusts it", n.id)
		}
		return
	}
	if !n.c.Takeover || n.created != 0 || n.tookOver != 0 && n.tookOver != lease {
		w.fail("%s revokes lease %d: takeover=%v joined=%d before=%d", n.id, lease, n.c.Takeover, n.created, n.tookOver)
	}
	n.tookOver = lease
}

// starting is the start rule (I4).
func (w *xRun) starting(n *xNode, e Start) {
	s, epoch := e.Token.Shard, e.Token.Epoch
	claim := n.m.view.Claims[s]
	switch {
	case claim.Rev != epoch.Revision() || claim.Lease != n.lease || n.created == 0:
		w.fail("start rule: %s starts shard %d, epoch %v: claim %+v, own lease %d", n.id, s, epoch, claim, n.lease)
	case w.now >= n.bound || n.trust <= w.now:
		w.fail("start rule: %s starts shard %d without trust", n.id, s)
	case epoch <= n.used[s]:
		w.fail("I4: %s starts shard %d, epoch %v, after it used or gave away %v", n.id, s, epoch, n.used[s])
	case n.m.latched:
		w.fail("start rule: %s starts shard %d while leaving", n.id, s)
	}
	for _, t := range n.tenures {
		if t.shard == s && !t.forced {
			w.fail("start rule: %s starts shard %d, epoch %v, while epoch %v runs", n.id, s, epoch, t.epoch)
		}
	}
	n.used = slices.Clone(n.used)
	n.used[s] = epoch
}

// exited: a node ends with nil only if it was told to leave, and with an error only for cause.
func (w *xRun) exited(n *xNode, err error) {
	if err == nil {
		if !n.leaving {
			w.fail("%s exits without being told to", n.id)
		}
		return
	}
	if _, ok := errors.AsType[*Abandoned](err); ok && n.leaving {
		return
	}
	if _, ok := errors.AsType[*Taken](err); ok {
		return // there was another process of its id
	}
	w.fail("%s exits: %v", n.id, err)
}

// accepts: the handler has loaded its state, runs, whatever its contexts say, and the fence lets it write.
func (s *xScope) accepts(sealed shard.Epoch, t *xTenure) bool {
	return t.ready && !t.returned && (s.unfenced || sealed == t.epoch)
}
