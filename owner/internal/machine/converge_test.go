package machine

import (
	"fmt"
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// unsettled says what is missing for I9, or "". The store alone is asked, and the gates.
func (w *world) unsettled() string {
	v := w.sees()
	for _, n := range w.nodes {
		if n.up && n.leaving {
			return n.name + " has not left"
		}
		if n.up && n.created == 0 && w.aliveUnder(n.id) == n {
			return n.name + " has not joined"
		}
	}
	if len(v.Moves) > 0 {
		return fmt.Sprintf("%d moves are pending", len(v.Moves))
	}
	for id, m := range v.Members {
		if m.Draining != v.Drains[id] {
			return id + " does not mirror its drain"
		}
	}
	for s := range v.Claims {
		holder, held := v.Holder(s)
		switch {
		case !held && w.avoidedByAll(v, s):
		case !held:
			return fmt.Sprintf("shard %d has no owner", s)
		case !w.servedBy(holder, s, v.Claims[s]):
			return fmt.Sprintf("shard %d is not served by %s", s, holder.ID)
		}
	}
	if plan := w.planner.Plan(planInput(v)); len(plan.Grants)+len(plan.Moves)+len(plan.Cancels) > 0 {
		return fmt.Sprintf("the plan is %+v", plan)
	}
	return w.unbalanced(v)
}

func (w *world) avoidedByAll(v *layout.View, s int) bool {
	for id, m := range v.Members {
		if m.Eligible() {
			if _, ok := v.Avoids[s][id]; !ok {
				return false
			}
		}
	}
	return true
}

func (w *world) servedBy(holder layout.MemberState, s int, claim layout.ClaimState) bool {
	for _, t := range w.at[s] {
		if n := t.node; n.lease == claim.Lease && n.id == holder.ID && t == n.tenures[s] {
			return t.epoch.Revision() == claim.Rev && t.admits()
		}
	}
	return false
}

// unbalanced is the quota by itself, where it is plain: equal weights, and nothing pinned, drained or avoided.
func (w *world) unbalanced(v *layout.View) string {
	if len(v.Pins)+len(v.Avoids) > 0 {
		return ""
	}
	var members int
	for _, m := range v.Members {
		switch {
		case m.Eligible() && m.Weight != 1:
			return ""
		case m.Eligible():
			members++
		case v.Held(m.Lease) > 0:
			return fmt.Sprintf("%s owns %d shards and is not eligible", m.ID, v.Held(m.Lease))
		}
	}
	for _, m := range v.Members {
		low := w.group.Shards / members
		if held := v.Held(m.Lease); m.Eligible() && (held < low || held > low+1) {
			return fmt.Sprintf("%s owns %d of %d shards, with %d members", m.ID, held, w.group.Shards, members)
		}
	}
	return ""
}

func planInput(v *layout.View) shard.PlanInput {
	in := shard.PlanInput{Owners: make([]string, len(v.Claims)), Pins: v.Pins, Avoids: make(map[int][]string)}
	for id, m := range v.Members {
		in.Members = append(in.Members, shard.Candidate{ID: id, Weight: m.Weight, Draining: m.Draining, Opaque: m.Err != nil})
	}
	for s := range v.Claims {
		if m, ok := v.Holder(s); ok {
			in.Owners[s] = m.ID
		}
	}
	for s, who := range v.Avoids {
		for id := range who {
			in.Avoids[s] = append(in.Avoids[s], id)
		}
	}
	return in
}

// settle runs until I9 holds, and fails if it does not within the limit.
func (w *world) settle(limit time.Duration) time.Duration {
	began := w.now
	for {
		why := w.unsettled()
		if why == "" {
			return w.now - began
		}
		if w.now-began > limit {
			w.fail("I9: %v after the last fault, %s", w.now-began, why)
		}
		w.run(w.now + w.poll)
	}
}

// sameViews: what nodes have followed change by change is what a list shows.
func (w *world) sameViews() {
	const late = 10 * time.Millisecond // by then it has reached everybody
	for w.now-w.checks.last < late {
		w.run(w.now + late)
	}
	listed := layout.Load(w.keys, w.group.Shards, w.store.list())
	for _, n := range w.live() {
		v := *n.m.View()
		v.Rev, v.Cluster = listed.Rev, listed.Cluster // revisions of other keys make no difference
		if !reflect.DeepEqual(listed, &v) {
			w.fail("%s has another view than the store (-store +view):\n%s", n.name,
				cmp.Diff(listed, &v, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateErrors()))
		}
	}
}
