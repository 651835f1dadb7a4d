package shard_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tenure-go/tenure/shard"
)

// m is a member of weight 1 in some states: d(raining), s(ettling), o(paque), z(ero weight).
func m(id string, states ...string) shard.Candidate {
	c := shard.Candidate{ID: id, Weight: 1}
	for _, s := range states {
		switch s {
		case "d":
			c.Draining = true
		case "s":
			c.Settling = true
		case "o":
			c.Opaque = true
		case "z":
			c.Weight = 0
		}
	}
	return c
}

func members(ms ...shard.Candidate) []shard.Candidate { return ms }

// owners reads "a b - a": the owners of shards 0 to 3, - for none.
func owners(s string) []string {
	f := strings.Fields(s)
	for i := range f {
		if f[i] == "-" {
			f[i] = ""
		}
	}
	return f
}

func TestPlanRules(t *testing.T) {
	type in = shard.PlanInput
	type out = shard.Plan
	type changes = []shard.Change
	pins := func(s int, id string) map[int]string { return map[int]string{s: id} }
	avoids := func(s int, ids ...string) map[int][]string { return map[int][]string{s: ids} }
	to := func(s int, id string) []shard.Pending { return []shard.Pending{{Shard: s, To: id}} }
	for _, c := range []struct {
		why  string
		in   in
		want out
	}{
		{"nothing at all", in{}, out{}},
		{"nobody", in{Owners: owners("- - x")}, out{Unowned: []int{0, 1}}},
		{"all drain", in{Members: members(m("a", "d"), m("b", "z")), Owners: owners("a b -")}, out{Unowned: []int{2}}},
		{"in quota", in{Members: members(m("a"), m("b")), Owners: owners("a a b")}, out{}},
		{
			"a stranger's shard is left alone and counts for nobody",
			in{Members: members(m("a"), m("b")), Owners: owners("x x x a b")},
			out{},
		},
		{
			"an opaque member keeps what it has and gets nothing",
			in{Members: members(m("a"), m("o", "o")), Owners: owners("o o a -")},
			out{Grants: changes{{3, "", "a", shard.Orphan}}},
		},
		{
			"an opaque member counts as such even if it seems to drain",
			in{Members: members(m("a"), m("o", "o", "d", "z")), Owners: owners("o o a")},
			out{},
		},
		{
			"an opaque member keeps a shard that is pinned elsewhere, or that it avoids",
			in{Members: members(m("a"), m("o", "o")), Owners: owners("o o"), Pins: pins(0, "a"), Avoids: avoids(1, "o")},
			out{},
		},
		{
			"a settling member gets nothing while there is a settled one",
			in{Members: members(m("a"), m("s", "s")), Owners: owners("a a a -")},
			out{Grants: changes{{3, "", "a", shard.Orphan}}},
		},
		{
			"a settling member gets what the settled avoid",
			in{Members: members(m("a"), m("s", "s")), Owners: owners("a -"), Avoids: avoids(1, "a")},
			out{Grants: changes{{1, "", "s", shard.Orphan}}},
		},
		{
			"a settling member is not drained to",
			in{Members: members(m("a", "d"), m("s", "s")), Owners: owners("a a")},
			out{},
		},
		{
			"a settling member keeps what it has, and it counts for no quota",
			in{Members: members(m("a"), m("b"), m("s", "s")), Owners: owners("s s s a b")},
			out{},
		},
		{
			"a settling member loses what it can't start",
			in{Members: members(m("a"), m("s", "s")), Owners: owners("s s a"), Avoids: avoids(0, "s")},
			out{Moves: changes{{0, "s", "a", shard.Avoided}}},
		},
		{
			"a pin goes first",
			in{Members: members(m("a"), m("b")), Owners: owners("a b"), Pins: pins(0, "b")},
			out{Moves: changes{{0, "a", "b", shard.Pinned}, {1, "b", "a", shard.Balance}}},
		},
		{
			"a pin takes from a settling member, and waits for one",
			in{Members: members(m("a"), m("s", "s")), Owners: owners("s a a"), Pins: map[int]string{0: "a", 1: "s"}},
			out{Moves: changes{{0, "s", "a", shard.Pinned}}},
		},
		{
			"a pin to whom it can't go is ignored",
			in{
				Members: members(m("a"), m("d", "d"), m("o", "o")), Owners: owners("a a a a a"),
				Pins: map[int]string{0: "d", 1: "o", 2: "x", 3: "", 4: "a"},
			},
			out{},
		},
		{
			"a pin waits for the end of a back-off",
			in{Members: members(m("a"), m("b")), Owners: owners("a b"), Pins: pins(0, "b"), Avoids: avoids(0, "b")},
			out{},
		},
		{
			"pins may exceed a quota, and the others share the rest",
			in{Members: members(m("a"), m("b"), m("c")), Owners: owners("a a a b b b c"), Pins: map[int]string{0: "a", 1: "a", 2: "a"}},
			out{Moves: changes{{4, "b", "c", shard.Balance}}},
		},
		{
			"an avoided owner loses the shard",
			in{Members: members(m("a"), m("b")), Owners: owners("a b"), Avoids: avoids(0, "a")},
			out{Moves: changes{{0, "a", "b", shard.Avoided}, {1, "b", "a", shard.Balance}}},
		},
		{
			"what all avoid stays, or stays unowned",
			in{Members: members(m("a"), m("b")), Owners: owners("a -"), Avoids: map[int][]string{0: {"b", "a"}, 1: {"a", "b"}}},
			out{Unowned: []int{1}},
		},
		{
			"a drain",
			in{Members: members(m("a"), m("z", "z")), Owners: owners("a z")},
			out{Moves: changes{{1, "z", "a", shard.Drain}}},
		},
		{
			"a drain goes to the pinned member, and is called a drain",
			in{Members: members(m("a"), m("b"), m("d", "d")), Owners: owners("d d a b"), Pins: pins(0, "b"), MaxMoves: 1},
			out{Moves: changes{{0, "d", "b", shard.Drain}, {1, "d", "a", shard.Drain}}},
		},
		{
			"a move under way counts at its target",
			in{Members: members(m("a"), m("b")), Owners: owners("a a a a"), Moves: to(0, "b")},
			out{Moves: changes{{1, "a", "b", shard.Balance}}},
		},
		{
			"a move to one who drains now is cancelled, and another for the shard ordered in the next plan",
			in{Members: members(m("a"), m("b", "d"), m("c")), Owners: owners("a a"), Moves: to(0, "b")},
			out{Cancels: changes{{0, "a", "b", shard.NoTarget}}},
		},
		{
			"a move to its owner, to nobody, of no shard",
			in{Members: members(m("a")), Owners: owners("a a"), Moves: []shard.Pending{{0, "a"}, {1, "x"}, {2, "a"}, {-1, "a"}}},
			out{Cancels: changes{{-1, "", "a", shard.Unneeded}, {0, "a", "a", shard.Unneeded}, {1, "a", "x", shard.NoTarget}, {2, "", "a", shard.Unneeded}}},
		},
		{
			"one move is known twice, and of two for one shard one is taken",
			in{Members: members(m("a"), m("b"), m("c")), Owners: owners("a a b c c c"), Moves: []shard.Pending{{0, "b"}, {4, "b"}, {0, "b"}, {4, "a"}}, Pins: map[int]string{0: "b", 4: "a"}},
			out{Cancels: changes{{4, "c", "b", shard.Unneeded}}},
		},
		{
			"a move that a pin contradicts",
			in{Members: members(m("a"), m("b")), Owners: owners("a b"), Moves: to(0, "b"), Pins: pins(0, "a")},
			out{Cancels: changes{{0, "a", "b", shard.Pinned}}},
		},
		{
			"a move to one who avoids the shard",
			in{Members: members(m("a"), m("b")), Owners: owners("a"), Moves: to(0, "b"), Avoids: avoids(0, "b")},
			out{Cancels: changes{{0, "a", "b", shard.NoTarget}}},
		},
		{
			"a move that balance needs no longer",
			in{Members: members(m("a"), m("b")), Owners: owners("a b"), Moves: to(0, "b")},
			out{Cancels: changes{{0, "a", "b", shard.Unneeded}}},
		},
		{
			"an unclaimed shard goes to the one who prepares for it, and its move with it",
			in{Members: members(m("a"), m("b"), m("c")), Owners: owners("-"), Moves: to(0, "b")},
			out{Grants: changes{{0, "", "b", shard.Orphan}}},
		},
		{
			"an unclaimed shard that nobody gets loses its move",
			in{Members: members(m("a", "d")), Owners: owners("-"), Moves: to(0, "a")},
			out{Cancels: changes{{0, "", "a", shard.NoTarget}}, Unowned: []int{0}},
		},
		{
			"a stranger's move goes on while it fits",
			in{Members: members(m("a"), m("d", "d")), Owners: owners("x x"), Moves: []shard.Pending{{0, "a"}, {1, "d"}}},
			out{Cancels: changes{{1, "x", "d", shard.NoTarget}}},
		},
		{
			"a move to a settling member goes on, and counts for no quota",
			in{Members: members(m("a"), m("b"), m("s", "s")), Owners: owners("a a a b"), Moves: to(0, "s")},
			out{},
		},
		{
			"a move off an opaque member goes on, and counts at its target",
			in{Members: members(m("a"), m("b"), m("o", "o")), Owners: owners("o o - -"), Moves: []shard.Pending{{0, "a"}, {1, "a"}}},
			out{Grants: changes{{2, "", "b", shard.Orphan}, {3, "", "b", shard.Orphan}}},
		},
		{
			"pins before balance, and no more than may be in flight",
			in{
				Members: members(m("a"), m("b")), Owners: owners("a a a a a a a a"), Moves: to(0, "b"),
				Pins: pins(7, "b"), MaxMoves: 2,
			},
			out{Moves: changes{{7, "a", "b", shard.Pinned}}},
		},
		{
			"cancelled moves are in flight still",
			in{Members: members(m("a"), m("b")), Owners: owners("a a a a"), Moves: to(0, "x"), MaxMoves: 1},
			out{Cancels: changes{{0, "a", "x", shard.NoTarget}}},
		},
		{
			"a move off an opaque member is no drain, whatever it seems to do",
			in{
				Members: members(m("a"), m("b"), m("o", "o", "d")), Owners: owners("o a a a a"), Moves: to(0, "b"),
				Pins: map[int]string{1: "b", 2: "b", 3: "b", 4: "b"}, MaxMoves: 2, MaxDrains: 1,
			},
			out{Moves: changes{{1, "a", "b", shard.Pinned}}},
		},
		{
			"drains have an allowance of their own",
			in{Members: members(m("a"), m("b"), m("d", "d")), Owners: owners("d d d a a a b"), Moves: to(1, "b"), MaxDrains: 2, MaxMoves: 1},
			out{Moves: changes{{0, "d", "a", shard.Drain}}},
		},
		{
			"a draining member that comes back keeps what it still has",
			in{Members: members(m("a"), m("b")), Owners: owners("a a b b"), Moves: []shard.Pending{{0, "b"}, {1, "b"}}},
			out{Cancels: changes{{0, "a", "b", shard.Unneeded}, {1, "a", "b", shard.Unneeded}}},
		},
		{
			"twice the same member is the stricter one",
			in{Members: members(m("a"), m("b"), m("b", "d")), Owners: owners("b a")},
			out{Moves: changes{{0, "b", "a", shard.Drain}}},
		},
		{"no ID is no member", in{Members: members(m("")), Owners: owners("-")}, out{Unowned: []int{0}}},
	} {
		got := new(shard.Planner).Plan(c.in)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", c.why, diff)
		}
	}
}

func TestPlanWeights(t *testing.T) {
	for _, c := range []struct {
		weights []int
		shards  int
		want    string // loads
	}{
		{[]int{1, 3}, 64, "16 48"},
		{[]int{1, 1, 2}, 4, "1 1 2"},
		{[]int{0, -5, 2}, 7, "0 0 7"},
		{[]int{500_000, math.MaxInt}, 30, "10 20"}, // as 1,000,000
		{[]int{math.MaxInt, math.MaxInt, math.MinInt}, 65536, "32768 32768 0"},
		{[]int{math.MaxInt}, 65546, "65536"}, // shards from MaxShards on are none
	} {
		in := shard.PlanInput{Owners: make([]string, c.shards)}
		for i, w := range c.weights {
			in.Members = append(in.Members, shard.Candidate{ID: fmt.Sprint(i), Weight: w})
		}
		carryOut(&in, new(shard.Planner).Plan(in))
		load := map[string]int{}
		for _, o := range in.Owners {
			load[o]++
		}
		var got []string
		for i := range c.weights {
			got = append(got, fmt.Sprint(load[fmt.Sprint(i)]))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("weights %v, %d shards: loads %s, want %s", c.weights, c.shards, g, c.want)
		}
	}
}

// While nobody has settled, members that are settling share what is unclaimed as evenly as if they had.
func TestPlanSettlingOnly(t *testing.T) {
	in := shard.PlanInput{Owners: make([]string, 100), Members: members(m("a", "s"), m("b", "s"), m("c", "s"), m("d", "s"), m("e", "d"))}
	for s := range 31 {
		in.Owners[s] = "a"
	}
	carryOut(&in, new(shard.Planner).Plan(in))
	load := map[string]int{}
	for _, o := range in.Owners {
		load[o]++
	}
	if diff := cmp.Diff(map[string]int{"a": 31, "b": 23, "c": 23, "d": 23}, load); diff != "" {
		t.Error(diff)
	}
}

// And they get what they would have got, so that nothing has to move when they settle.
func TestPlanSettlingAsSettled(t *testing.T) {
	in := shard.PlanInput{Owners: make([]string, 100)}
	for i := range 7 {
		in.Members = append(in.Members, m(fmt.Sprint(i), "s"))
	}
	settling := new(shard.Planner).Plan(in)
	for i := range in.Members {
		in.Members[i].Settling = false
	}
	if diff := cmp.Diff(settling, new(shard.Planner).Plan(in)); diff != "" {
		t.Errorf("settling (-), settled (+):\n%s", diff)
	}
}

// Placements tend to the ring: two that were made from nothing, with ten members and with nine
// of them, have most shards in common, which no quota demands.
func TestPlanTendsToTheRing(t *testing.T) {
	const shards = 1000
	var p shard.Planner
	ten, nine := cluster(&p, shards, 10), cluster(&p, shards, 9)
	same := 0
	for s := range shards {
		if ten.Owners[s] == nine.Owners[s] {
			same++
		}
	}
	if same < shards*6/10 {
		t.Errorf("%d of %d shards are where they were", same, shards)
	}
	t.Logf("%d of %d shards in common", same, shards)
}

// Beyond what the flow is given to solve, the plan is a good one still: nobody is given what it
// avoids, all is owned, and there is an end.
func TestPlanManyAvoidSets(t *testing.T) {
	const shards, n = 1200, 300
	in := shard.PlanInput{Owners: make([]string, shards), Avoids: map[int][]string{}}
	for i := range n {
		in.Members = append(in.Members, m(fmt.Sprintf("m%03d", i)))
	}
	for s := range in.Owners {
		in.Avoids[s] = []string{in.Members[s%n].ID, in.Members[(s+s/n+1)%n].ID} // all different
	}
	var p shard.Planner
	out := p.Plan(in)
	if len(out.Grants) != shards {
		t.Fatalf("%d grants", len(out.Grants))
	}
	if diff := cmp.Diff(out, p.Plan(shuffled(seeded(1), in))); diff != "" {
		t.Error("the order matters")
	}
	for range 10 {
		o := consult(in)
		if out = p.Plan(in); len(out.Grants)+len(out.Moves) == 0 {
			return
		}
		if why := sound(o, out); why != "" {
			t.Fatal(why)
		}
		carryOut(&in, out)
	}
	t.Errorf("no end: %d moves", len(out.Moves))
}
