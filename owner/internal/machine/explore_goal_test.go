package machine

import (
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// reached is the goal of I9: nothing is on its way, every shard that somebody can start has a live owner that serves, and the planner would
// change nothing. Where somebody can't start a shard, an owner is enough: a pin to him comes back each time that an avoid ends.
func (w *xWorld) reached(p *shard.Planner) bool {
	for _, n := range w.nodes {
		if !n.settled(w) {
			return false
		}
	}
	v := layout.Load(w.scope.keys, w.scope.shards, w.store.list())
	if len(v.Moves) > 0 || len(v.Members) != len(w.nodes) {
		return false
	}
	broken, able, eligible := 0, 0, false // shards as bits
	for _, n := range w.nodes {
		broken |= n.broken
		if v.Members[n.id].Eligible() {
			eligible = true
			able |= (1<<w.scope.shards - 1) &^ n.broken
		}
	}
	for _, n := range w.nodes {
		for _, t := range n.tenures {
			if able&(1<<t.shard) == 0 {
				continue // a start that must fail
			}
			if !t.open || t.closed || t.forced || n.trust <= w.now {
				return false
			}
			able &^= 1 << t.shard
		}
	}
	switch {
	case !eligible:
		return true
	case able != 0:
		return false // not served
	case broken != 0:
		return true
	}
	return len(v.Avoids) == 0 && w.nothingToPlan(p, v)
}

// settled: nothing of n is on its way.
func (n *xNode) settled(w *xWorld) bool {
	return len(n.requests) == 0 && len(n.preps) == 0 && n.plan == nil && !n.leaving &&
		n.m.view != nil && n.m.view.Rev == w.store.rev && n.created != 0 && n.m.member.lease != 0
}

func (w *xWorld) nothingToPlan(p *shard.Planner, v *layout.View) bool {
	in := shard.PlanInput{Owners: make([]string, w.scope.shards), Pins: v.Pins}
	for id, m := range v.Members {
		in.Members = append(in.Members, shard.Candidate{ID: id, Weight: m.Weight, Draining: m.Draining})
	}
	for s := range in.Owners {
		if h, ok := v.Holder(s); ok {
			in.Owners[s] = h.ID
		}
	}
	todo := p.Plan(in)
	return len(todo.Grants)+len(todo.Moves)+len(todo.Cancels) == 0
}
