package machine

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// I7: a plan from a former turn is dropped: another may be under way, and has seen more.
func TestI7_PlanOfAFormerTurn(t *testing.T) {
	r := joined(t)
	r.live(2 * time.Second)
	take[MakePlan](r)
	r.put(cas.Delete(r.keys.Member("a")))
	r.settle()
	take[Joined](r)
	if !r.m.Planning() || !r.m.plan.void {
		t.Fatal("there is no second turn")
	}
	r.step(Planned{Plan: shard.Plan{Grants: []shard.Change{{Shard: 0, To: "a"}}}})
	r.noCommit(Grant, "that was for the turn before")
	r.step(Planned{Plan: shard.Plan{Grants: []shard.Change{{Shard: 0, To: "a"}}}})
	r.noCommit(Grant, "nobody asked for that")
}

// I9: a plan takes long, and meanwhile its planner's turn ends and another begins. Were the next plan begun at once, the former's
// answer would be taken for it, and the next one's own dropped: nothing would balance the group until something changed.
func TestI9_PlanOfAFormerTurnIsNotTheNext(t *testing.T) {
	r := joined(t)
	r.live(2 * time.Second)
	take[MakePlan](r)
	r.put(cas.Delete(r.keys.Member("a")))
	r.settle()
	take[Joined](r)
	r.live(2 * time.Second)
	none[MakePlan](r, "the former one is under way")
	r.step(Planned{})
	r.live(time.Second)
	take[MakePlan](r)
	r.step(Planned{Plan: shard.Plan{Grants: []shard.Change{{Shard: 1, To: "a"}}}})
	if got := r.commitOf(Grant).Shards; len(got) != 1 || got[0] != 1 {
		t.Errorf("grants %v, want shard 1", got)
	}
}

// The next plan waits until the view shows what came of the last.
func TestPlan_WaitsForTheView(t *testing.T) {
	r := joined(t)
	r.hold[Grant] = true
	r.plan(shard.Plan{Grants: []shard.Change{{Shard: 0, To: "a"}}})
	c := r.commitOf(Grant)
	r.deaf = true
	r.answer(c)
	r.m.replan()
	r.pass(mostPause)
	none[MakePlan](r, "the view does not show the grant")
	r.deaf = false
	r.watch()
	r.pass(mostPause)
	take[MakePlan](r)
}

// Case 16: a plan whose target drains by now is not sent.
func TestCase_cadence7594_GrantToADrainingMember(t *testing.T) {
	r := joined(t)
	lb := r.other("b", false)
	r.live(2 * time.Second)
	r.drop()
	r.m.plan.underWay = true
	r.record("b", lb, true)
	r.step(Planned{Plan: shard.Plan{Grants: []shard.Change{{Shard: 0, To: "b"}}}})
	r.noCommit(Grant, "b drains")
}

// A member that has joined just now counts for nothing yet, so that one that comes and goes freezes nothing; it is
// planned with once it has settled, though nothing else happens.
func TestPlan_SettlingMember(t *testing.T) {
	r := joined(t)
	r.claim(1, 0, 1, 2, 3)
	for range 300 {
		r.live(10 * time.Millisecond)
		if r.m.plan.underWay {
			r.step(Planned{})
		}
	}
	r.drop()
	r.other("b", false)
	settling := func() bool {
		t.Helper()
		in := take[MakePlan](r).In
		r.step(Planned{})
		for _, m := range in.Members {
			if m.ID == "b" {
				return m.Settling
			}
		}
		t.Fatal("b is not planned with")
		return false
	}
	r.pass(100 * time.Millisecond)
	if !settling() {
		t.Error("b has settled at once")
	}
	r.live(r.m.c.Settle)
	if settling() {
		t.Error("b never settles")
	}
}

// I7: who is not the oldest does not plan, and one that no longer is sends nothing of what it had planned.
func TestI7_OnlyTheOldestPlans(t *testing.T) {
	r := newRig(t)
	r.settle()
	if !r.m.Planning() {
		t.Fatal("the only member does not plan")
	}
	r = bare(t)
	r.put(cas.Put(r.keys.Config(), layout.Encode(layout.Config{Format: 1, ID: "gid", Shards: 4, Hash: "xxh64"})))
	lb := r.other("b", false)
	r.list()
	r.live(time.Minute)
	if r.m.Planning() {
		t.Error("two plan")
	}
	none[MakePlan](r, "b is older")
	_ = r.store.revoke("expired", lb)
	r.watch()
	if !r.m.Planning() {
		t.Error("nobody plans")
	}
	r.live(time.Second)
	take[MakePlan](r)
	r.drop()
	// Its record goes, and with it its turn. The plan that comes then is nobody's.
	r.hold[Join] = true
	r.put(cas.Delete(r.keys.Member("a")))
	r.step(Planned{Plan: shard.Plan{Grants: []shard.Change{{Shard: 0, To: "a"}}}})
	r.settle()
	r.noCommit(Grant, "it no longer plans")
}

// A planner that was paused and has been replaced sends its plan all the same; the store refuses it.
func TestI7_LatePlanIsRefused(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	r.plan(shard.Plan{Grants: []shard.Change{{Shard: 0, To: "b"}}})
	c := r.commitOf(Grant)
	r.deaf = true
	_ = r.store.revoke("expired", 1)
	if _, err := r.store.commit("GRANT", c.Txn); err == nil {
		t.Error("the plan of one that is gone landed")
	}
}

// I8: a plan that took long is carried out only as far as it fits what is there by then.
func TestI8_StalePlan(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	r.other("c", false)
	r.claim(1, 0, 1)
	r.live(2 * time.Second)
	if !r.m.plan.underWay {
		t.Fatal("no plan is under way")
	}
	r.drop()
	r.claim(3, 0) // c has it by now
	r.claim(2, 2) // and an orphan is none any more
	r.step(Planned{Plan: shard.Plan{
		Moves:  []shard.Change{{Shard: 0, From: "a", To: "b"}, {Shard: 1, From: "a", To: "b"}},
		Grants: []shard.Change{{Shard: 2, To: "b"}, {Shard: 3, To: "b"}},
	}})
	if got := r.commitOf(Move).Shards; len(got) != 1 || got[0] != 1 {
		t.Errorf("moves %v, want only shard 1", got)
	}
	if got := r.commitOf(Grant).Shards; len(got) != 1 || got[0] != 3 {
		t.Errorf("grants %v, want only shard 3", got)
	}
}

// A grant deletes the move that is left of an owner that died, or its shard would be stuck.
func TestGrant_DeletesTheMove(t *testing.T) {
	r := joined(t)
	r.plans = true
	r.other("b", false)
	lc := r.other("c", false)
	r.claim(lc, 0)
	r.live(2 * time.Second)
	r.drop()
	r.order(2, "b", true, 0)
	_ = r.store.revoke("expired", lc)
	r.watch()
	for i := 0; r.m.View().Claims[0].Rev == 0; i++ {
		if i > 1000 {
			t.Fatal("it stays an orphan")
		}
		r.live(time.Millisecond)
	}
	if mv, ok := r.m.View().Moves[0]; ok {
		t.Errorf("the move is left: %+v", mv)
	}
}

// A move that stands still is cancelled at its deadline, by whoever plans then.
func TestCancel_StalledMove(t *testing.T) {
	r := joined(t)
	r.hold[Cancel] = true
	r.plans = true
	lb := r.other("b", false)
	lc := r.other("c", false)
	r.claim(lb, 0, 1)
	r.claim(lc, 2, 3)
	r.drop()
	r.put(cas.Put(r.keys.Pin(0), layout.Encode(layout.Pin{Format: 1, Member: "c"})))
	r.order(lc, "c", false, 0)
	deadline := r.m.c.PrepareTimeout + r.m.c.DrainTimeout + moveSlack
	r.live(deadline - time.Second)
	r.noCommit(Cancel, "it has time left")
	r.live(2 * time.Second)
	r.commitOf(Cancel)
}

// A claim whose lease is no member's is reaped, once nobody can act under it any more.
func TestReap_AfterTTLAndMargin(t *testing.T) {
	r := joined(t)
	r.plans = true
	r.hold[Reap] = true
	lb := r.other("b", false)
	r.claim(lb, 0)
	r.live(2 * time.Second)
	r.put(cas.Delete(r.keys.Member("b"))) // the lease lives on
	r.live(ttl + Margin(ttl) - time.Second)
	r.noCommit(Reap, "its holder may act on it")
	r.live(2 * time.Second)
	c := r.commitOf(Reap)
	// Once the claim has changed it is another's: the late reap is refused.
	r.claim(1, 0)
	if _, err := r.store.commit("REAP", c.Txn); err == nil {
		t.Error("a new claim was reaped")
	}
}

// A group's first grants wait for MinMembers and for Settle since the last join, but not for ever.
func TestColdStart(t *testing.T) {
	for name, test := range map[string]struct {
		min   int
		joins []time.Duration // of other members, after the node's own
		want  time.Duration   // until the first grant
	}{
		"alone":                {1, nil, time.Second},
		"another joins":        {1, []time.Duration{500 * time.Millisecond}, 1500 * time.Millisecond},
		"enough":               {2, []time.Duration{3 * time.Second}, 4 * time.Second},
		"not enough":           {3, []time.Duration{3 * time.Second}, 10 * time.Second},
		"one after another":    {1, every(900*time.Millisecond, 20), 10 * time.Second},
		"enough, at the bound": {2, []time.Duration{9500 * time.Millisecond}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := joined(t, func(c *Config) { c.MinMembers = test.min })
			r.plans = true
			r.hold[Grant] = true
			began, i := r.now, 0
			for ; r.now-began < 20*time.Second; r.live(10 * time.Millisecond) {
				for ; i < len(test.joins) && r.now-began >= test.joins[i]; i++ {
					r.other(string(rune('b'+i)), false)
				}
				for _, e := range r.pending {
					if c, ok := e.(Commit); ok && c.Kind == Grant {
						if got := r.now - began; got < test.want-20*time.Millisecond || got > test.want+50*time.Millisecond {
							t.Errorf("the first grant came after %v, want %v", got, test.want)
						}
						return
					}
				}
			}
			t.Error("nothing was granted")
		})
	}
}

func every(d time.Duration, n int) []time.Duration {
	var at []time.Duration
	for i := range n {
		at = append(at, d*time.Duration(i+1))
	}
	return at
}

// Later orphans are granted at once: nobody waits for the settle time of the cold start.
func TestOrphans_GrantedAtOnce(t *testing.T) {
	r := joined(t)
	r.plans = true
	lb := r.other("b", false)
	r.claim(lb, 0)
	r.claim(1, 1, 2, 3)
	r.live(20 * time.Second)
	began := r.now
	_ = r.store.revoke("expired", lb)
	r.watch()
	for r.m.View().Claims[0].Rev == 0 {
		if r.now-began > time.Second {
			t.Fatal("it stays an orphan")
		}
		r.live(time.Millisecond)
	}
	if got := r.now - began; got > 10*time.Millisecond {
		t.Errorf("granted after %v", got)
	}
}

// A planner that was paused in the middle of a plan does not take it for a long one, and rests no longer after it.
func TestPlan_PausedPlanner(t *testing.T) {
	r := joined(t)
	r.live(2 * time.Second)
	take[MakePlan](r)
	r.now += 10 * time.Minute
	r.step(Planned{})
	r.other("b", false)
	r.live(mostPause + time.Second)
	take[MakePlan](r)
}

// A plan is never made per event: a burst makes one.
func TestPlan_Coalesced(t *testing.T) {
	r := joined(t, func(c *Config) { c.Group.Shards = 100 })
	lb := r.other("b", false)
	r.claim(1, 99)
	r.live(2 * time.Second)
	for r.m.plan.underWay {
		r.step(Planned{})
		r.live(10 * time.Millisecond)
	}
	r.drop()
	for s := range 50 {
		r.claim(lb, s)
	}
	none[MakePlan](r, "more may come")
	r.pass(100 * time.Millisecond)
	take[MakePlan](r)
	r.pass(time.Second)
	none[MakePlan](r, "one is under way")
}
