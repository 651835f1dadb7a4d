package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// planned queues what the plan wants. The view may have moved on since the plan was begun: what was made for
// another owner waits for the next one (I8).
func (m *Machine) planned(p shard.Plan) {
	if !m.plan.underWay {
		return // nobody asked
	}
	m.plan.underWay = false
	if m.plan.void {
		// The next one has waited for it: of two under way, the former's answer would be taken for the latter's.
		m.plan.void = false
		m.replan()
		return
	}
	m.plan.took = m.now - m.plan.sent
	byTarget := make(map[string][]int)
	targets := func(changes []shard.Change) []string {
		clear(byTarget)
		var ids []string
		for _, c := range changes {
			if m.ownerOf(c.Shard) != c.From {
				m.replan()
				continue
			}
			if byTarget[c.To] == nil {
				ids = append(ids, c.To)
			}
			byTarget[c.To] = append(byTarget[c.To], c.Shard)
		}
		return ids
	}
	granted := make(map[int]bool, len(p.Grants))
	for _, c := range p.Grants {
		granted[c.Shard] = true
	}
	var cancels []int
	for _, c := range p.Cancels {
		if !granted[c.Shard] { // a GRANT deletes the move
			cancels = append(cancels, c.Shard)
		}
	}
	m.enqueue(Cancel, "", cancels)
	for _, id := range targets(p.Grants) {
		m.enqueue(Grant, id, byTarget[id])
	}
	for _, id := range targets(p.Moves) {
		m.enqueue(Move, id, byTarget[id])
	}
	if n := len(p.Unowned); n != m.plan.unowned {
		m.plan.unowned = n
		if n > 0 && !m.leaving {
			m.note(-1, nil, fmt.Sprintf("%d shards have no owner (%d is the first): there is no eligible member, or each has failed to start them and waits before it tries again", n, p.Unowned[0]))
		}
	}
}

func (m *Machine) enqueue(kind Kind, target string, shards []int) {
	for batch := range slices.Chunk(shards, batchShards) {
		m.plan.queue = append(m.plan.queue, plannerTxn{kind, target, batch})
	}
}

// sendPlan sends what is queued, as much as the window holds.
func (m *Machine) sendPlan() {
	for len(m.plan.queue) > 0 && m.txns.planOpen < window {
		t := m.plan.queue[0]
		m.plan.queue = m.plan.queue[1:]
		txn, ok := m.planTxn(t)
		if !ok {
			m.replan() // its target is gone, or the view has moved on
			continue
		}
		m.txns.planOpen++
		m.commit(t.kind, t.shards, txn)
	}
}

// planTxn is a planner's transaction; it lands only while this node is the oldest member (I7).
func (m *Machine) planTxn(t plannerTxn) (cas.Txn, bool) {
	k, v := m.keys, m.view
	txn := cas.Txn{If: []cas.Cond{cas.CreatedAt(k.Member(m.c.Member.ID), m.member.created)}}
	ifs := func(c ...cas.Cond) { txn.If = append(txn.If, c...) }
	then := func(o ...cas.Op) { txn.Then = append(txn.Then, o...) }
	var to layout.MemberState
	if t.kind == Grant || t.kind == Move {
		var ok bool
		if to, ok = v.Members[t.target]; !ok || to.Draining || to.Err != nil {
			return cas.Txn{}, false
		}
		ifs(cas.AtRev(k.Member(t.target), to.Rev))
	}
	switch t.kind {
	case Grant:
		ifs(m.configCond())
		claim := layout.Encode(layout.Claim{Format: layout.Format, Member: t.target})
		for _, s := range t.shards {
			ifs(cas.Absent(k.Claim(s)))
			then(cas.PutLeased(k.Claim(s), claim, to.Lease), cas.Delete(k.Move(s)))
		}
	case Move:
		move := layout.Encode(layout.Move{Format: layout.Format, To: t.target, Ready: !to.Prepares})
		for _, s := range t.shards {
			// Only a claim that a member holds, by its own lease, can be handed over.
			holder, ok := v.Holder(s)
			if !ok {
				return cas.Txn{}, false
			}
			ifs(cas.LeasedTo(k.Claim(s), holder.Lease), cas.Absent(k.Move(s)))
			then(cas.PutLeased(k.Move(s), move, to.Lease))
		}
	case Cancel:
		for _, s := range t.shards {
			if mv, ok := v.Moves[s]; ok {
				ifs(cas.CreatedAt(k.Move(s), mv.Created))
				then(cas.Delete(k.Move(s)))
			}
		}
	case Reap:
		for _, s := range t.shards {
			if c := v.Claims[s]; c.Rev != 0 {
				ifs(cas.AtRev(k.Claim(s), c.Rev))
				then(cas.Delete(k.Claim(s)))
			}
		}
	}
	return txn, len(txn.Then) > 0
}

// planAnswered notes the answer to one of the planner's transactions.
func (m *Machine) planAnswered(wait int64, retry time.Duration, conflict bool) {
	m.plan.wait = max(m.plan.wait, wait)
	if retry != 0 {
		m.planAgain(retry)
	}
	if conflict {
		m.replan()
	}
}
