package shard_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/buraksezer/consistent"
	"github.com/tenure-go/tenure/shard"
)

// CASES row 18: 128 shards on 30 servers went 2 to 8 to each. Here it is 4 or 5, also after each
// server that leaves or comes, and no more shards move than have to.
func TestCase_horaedb200_QuotaHoldsAsServersComeAndGo(t *testing.T) {
	const shards = 128
	var p shard.Planner
	all := make([]shard.Candidate, 30)
	for i := range all {
		all[i] = shard.Candidate{ID: fmt.Sprintf("server-%d", i), Weight: 1}
	}
	in := shard.PlanInput{Members: all, Owners: make([]string, shards)}
	check := func(when string) {
		t.Helper()
		load := map[string]int{}
		for _, o := range in.Owners {
			load[o]++
		}
		lo, hi := shards/len(in.Members), (shards+len(in.Members)-1)/len(in.Members)
		for _, m := range in.Members {
			if n := load[m.ID]; n < lo || n > hi {
				t.Errorf("%s: %s has %d shards, want %d or %d", when, m.ID, n, lo, hi)
			}
		}
	}
	carryOut(&in, p.Plan(in))
	check("cold start")
	for i := range all {
		in.Members = slices.Concat(all[:i], all[i+1:])
		for s, o := range in.Owners {
			if o == all[i].ID {
				in.Owners[s] = ""
			}
		}
		carryOut(&in, p.Plan(in))
		check("without " + all[i].ID)

		in.Members = all
		out := p.Plan(in)
		if len(out.Moves) != 4 {
			t.Errorf("%s is back: %d moves, want 4", all[i].ID, len(out.Moves))
		}
		carryOut(&in, out)
		check("with " + all[i].ID)
	}
}

// CASES row 16: a shard was assigned to a draining node, and lost with it. Here whatever happens while
// a member drains, it is given nothing, and moves that were on their way to it are called back.
func TestCase_cadence7594_DrainingMembersGetNothing(t *testing.T) {
	for seed := range uint64(500) {
		p := seeded(seed)
		in := shape(p, 5, 30, true)
		draining := in.Members[p(len(in.Members))].ID
		for i := range in.Members {
			if in.Members[i].ID == draining {
				in.Members[i].Draining, in.Members[i].Opaque = true, false
			}
		}
		var planner shard.Planner
		for range 5 {
			out := planner.Plan(in)
			for _, c := range append(out.Grants, out.Moves...) {
				if c.To == draining {
					t.Fatalf("seed %d: %+v\n%s", seed, c, show(in))
				}
			}
			for _, m := range in.Moves {
				called := slices.ContainsFunc(append(out.Cancels, out.Grants...), func(c shard.Change) bool { return c.Shard == m.Shard })
				if m.To == draining && !called {
					t.Fatalf("seed %d: the move of %d to it goes on\n%s", seed, m.Shard, show(in))
				}
			}
			in.Moves = nil
			carryOut(&in, out)
		}
	}
}

// CASES row 21: in consistent v0.10.0 the owners depend on the order in which members were added
// if names are prefixes of each other, and a ring of more members than partitions panics, as does
// one with a load of 1. The first half shows that this is so of the library; if it fails after an
// update, ring.go can be simpler.
func TestCase_consistent_v0100_OrderAndPanics(t *testing.T) {
	ids := []string{"node1", "node11"}
	build := func(ids ...string) *consistent.Consistent {
		var ms []consistent.Member
		for _, id := range ids {
			ms = append(ms, named(id))
		}
		return consistent.New(ms, consistent.Config{Hasher: byXXHash{}, PartitionCount: 271})
	}
	a, b, differ := build(ids[0], ids[1]), build(ids[1], ids[0]), 0
	for s := range 271 {
		if a.GetPartitionOwner(s).String() != b.GetPartitionOwner(s).String() {
			differ++
		}
	}
	if differ == 0 {
		t.Error("the library does not depend on order any more")
	}
	t.Logf("the library alone: %d of 271 differ", differ)
	panics := func(c consistent.Config) (did bool) {
		defer func() { did = recover() != nil }()
		c.Hasher = byXXHash{}
		consistent.New([]consistent.Member{named("a"), named("b"), named("c")}, c)
		return
	}
	if !panics(consistent.Config{PartitionCount: 2}) || !panics(consistent.Config{PartitionCount: 271, Load: 1}) {
		t.Error("the library does not panic any more")
	}

	one := shard.PlanInput{Owners: make([]string, 271), Members: []shard.Candidate{{ID: ids[0], Weight: 1}, {ID: ids[1], Weight: 1}}}
	other := one
	other.Members = []shard.Candidate{one.Members[1], one.Members[0]}
	first, second := new(shard.Planner).Plan(one), new(shard.Planner).Plan(other)
	if !slices.Equal(first.Grants, second.Grants) {
		t.Error("the plan depends on the order of members")
	}

	var p shard.Planner
	for shards := range 5 {
		for members := range 12 {
			in := shard.PlanInput{Owners: make([]string, shards)}
			for i := range members {
				in.Members = append(in.Members, shard.Candidate{ID: fmt.Sprint("node", i), Weight: 1})
			}
			out := p.Plan(in)
			if want := min(shards, shards*members); len(out.Grants) != want || len(out.Unowned) != shards-want {
				t.Errorf("%d shards, %d members: %d grants, %d unowned", shards, members, len(out.Grants), len(out.Unowned))
			}
		}
	}
}
