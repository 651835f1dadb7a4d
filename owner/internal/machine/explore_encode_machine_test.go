package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
)

// machine is all of m that anything depends on from here on. TestEncode holds it complete.
func (e *xEncoder) machine(m *Machine) {
	e.view(m.view)
	e.byte(byte(m.lineage))
	e.flag(m.groupID != "", m.leaving, m.latched)
	e.awaited(m.behind, m.view)
	if m.view == nil || m.behind > m.view.Rev {
		e.ripe(m.askAt)
	}
	e.until(m.wake)
	if m.leaving {
		e.until(m.latchAt)
		e.until(m.leaveBy())
	}
	e.shards(m.dirty)
	e.shards(m.waiting)
	e.membership(m)
	e.planner(m)
	e.transactions(&m.txns, m.view)
	e.count(len(m.stagger.dark))
	for _, d := range m.stagger.dark {
		e.count(d.shard)
		e.age(d.since, darkPatience)
	}
	e.shards(m.stagger.queue)
	for s := range m.c.Group.Shards {
		sl := m.slots[s]
		e.flag(sl != nil)
		if sl != nil {
			e.slot(m, s, sl)
		}
	}
}

func (e *xEncoder) shards(list []int) {
	e.count(len(list))
	for _, s := range list {
		e.count(s)
	}
}

func (e *xEncoder) view(v *layout.View) {
	e.flag(v != nil)
	if v == nil {
		return
	}
	e.rev(v.Rev)
	e.rev(v.Config.Rev)
	e.byte(byte(v.Config.Lineage))
	e.count(len(v.Members))
	for _, id := range sortedKeys(&e.ids, v.Members) {
		m := v.Members[id]
		e.text(id)
		e.rev(m.Rev)
		e.rev(m.Created)
		e.lease(m.Lease)
		e.flag(m.Draining, m.Prepares)
	}
	for _, c := range v.Claims {
		e.rev(c.Rev)
		e.lease(c.Lease)
	}
	for s := range v.Claims {
		mv := v.Moves[s]
		e.rev(mv.Created)
		e.lease(mv.Lease)
		e.flag(mv.Ready)
		who := v.Avoids[s]
		e.count(len(who))
		for _, id := range sortedKeys(&e.ids, who) {
			e.text(id)
			e.rev(who[id].Created)
			e.lease(who[id].Lease)
		}
		e.text(v.Pins[s])
	}
	e.count(len(v.Drains))
	for _, id := range sortedKeys(&e.ids, v.Drains) {
		e.text(id)
	}
	e.count(len(v.Corpses))
}

func (e *xEncoder) membership(m *Machine) {
	mb := &m.member
	e.lease(mb.lease)
	e.number(uint64(mb.ttl))
	e.flag(mb.asking, mb.revoking, mb.joined, mb.renewing, mb.otherSure, mb.tookOver)
	e.lease(mb.former)
	e.count(len(mb.discarded))
	for _, id := range mb.discarded {
		e.lease(id)
	}
	e.ripe(mb.retryAt)
	e.byte(byte(min(mb.failures, 10)))
	e.rev(mb.created)
	e.flag(mb.txn != 0)
	e.awaited(mb.wait, m.view)
	e.count(mb.left)
	e.count(mb.abandoned)
	if mb.lease != 0 {
		e.ripe(mb.renewAt)
	}
	e.count(len(mb.acks))
	for _, a := range mb.acks {
		e.awaited(a.rev, m.view)
		e.until(a.until)
	}
	e.until(mb.trust)
	e.rev(mb.other)
	if mb.other != 0 {
		e.ripe(mb.otherUntil)
	}
	e.lease(mb.revoked)
}

func (e *xEncoder) planner(m *Machine) {
	p := &m.plan
	e.text(p.oldest)
	if m.Planning() {
		e.until(p.at)
	} else {
		e.flag(p.at != 0)
		e.ripe(p.at)
	}
	e.flag(p.underWay, p.void)
	if p.underWay && !p.void {
		e.age(p.sent, mostPause)
	}
	e.number(uint64(min(p.took, mostPause)))
	e.awaited(p.wait, m.view)
	e.flag(p.coldSince != 0)
	if p.coldSince != 0 {
		e.age(p.coldSince, coldStart*m.c.Settle)
	}
	for _, id := range sortedKeys(&e.ids, p.joins) {
		e.text(id)
		e.rev(p.joins[id].created)
		e.age(p.joins[id].at, m.c.Settle)
	}
	for s := range m.c.Group.Shards {
		if _, ok := p.orders[s]; !ok {
			continue
		}
		e.count(s)
		e.rev(p.orders[s].created)
		e.age(p.orders[s].at, m.c.PrepareTimeout+m.c.DrainTimeout+moveSlack)
	}
	for _, id := range slices.Sorted(maps.Keys(p.strays)) {
		e.lease(id)
		e.age(p.strays[id].at, m.c.TTL+Margin(m.c.TTL))
	}
	e.count(len(p.queue))
	for _, t := range p.queue {
		e.text(string(t.kind))
		e.text(t.target)
		e.shards(t.shards)
	}
	e.count(p.unowned)
}

// transactions that are open are written with their requests: each has one.
func (e *xEncoder) transactions(t *transactions, v *layout.View) {
	e.count(len(t.open))
	e.count(t.shardOpen)
	e.count(t.planOpen)
	e.shards(t.starved)
	e.ripe(t.fullUntil)
	e.until(t.holdUntil)
	if t.wrote && e.now-t.wroteAt < writeFresh {
		e.age(t.wroteAt, writeFresh)
	} else {
		e.number(uint64(writeFresh))
	}
	e.flag(t.probing, t.refusedAt != 0)
	e.awaited(t.refusedAt, v)
	e.shards(t.probed)
	e.ripe(t.probeAt)
}

func (e *xEncoder) slot(m *Machine, s int, sl *slot) {
	e.byte(byte(sl.phase))
	e.flag(sl.lost, sl.blamed, sl.returned, sl.drained, sl.txn != 0)
	if sl.phase != idle {
		e.epoch(sl.epoch)
		e.rev(sl.rev)
		e.flag(sl.err != nil)
	}
	claim := m.view.Claims[s]
	e.flag(claim.Rev != 0 && m.view.Epoch(claim.Rev) > sl.used)
	if sl.phase == serving {
		e.age(sl.since, steady)
	}
	e.until(sl.until)
	e.flag(sl.hung.epoch != 0, sl.hung.returned, sl.hung.drained)
	if sl.hung.epoch != 0 {
		e.epoch(sl.hung.epoch)
	}
	e.byte(byte(min(sl.failed, failedStarts)))
	e.byte(byte(min(sl.ended, 20)))
	e.awaited(sl.wait, m.view)
	e.ripe(sl.retryAt)
	e.ripe(sl.restAt)
	if sl.txn != 0 {
		e.text(string(sl.asked.kind))
		e.flag(m.overtaken(s, sl))
	}
	if mv, ok := m.view.Moves[s]; ok && sl.moveOut == mv.Created {
		e.age(sl.moveSince, m.c.PrepareTimeout)
	} else {
		e.number(uint64(time.Hour))
	}
	e.rev(sl.prep)
	e.byte(byte(sl.prepState))
	e.until(sl.avoidUntil)
	e.until(sl.wake)
}

// sortedKeys writes over buf.
func sortedKeys[V any](buf *[]string, m map[string]V) []string {
	keys := (*buf)[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	*buf = keys
	return keys
}
