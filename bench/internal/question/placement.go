package question

import (
	"fmt"
	"strconv"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
	"github.com/dgryski/go-jump"
	"github.com/dgryski/go-rendezvous"
	"github.com/golang/groupcache/consistenthash"

	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/shard"
)

// placer says which member has which shard, for one membership after another.
type placer func(shards int, members []string) []string

// placers are made anew for each history, since Tenure's planner starts from where shards are.
func placers() []struct {
	name, note string
	ours       bool
	make       func() placer
} {
	return []struct {
		name, note string
		ours       bool
		make       func() placer
	}{
		{"plain ring", "groupcache's consistenthash, 100 virtual nodes each", false, func() placer { return ring }},
		{"rendezvous hash", "dgryski/go-rendezvous", false, func() placer { return rendezvousHash }},
		{"jump hash", "dgryski/go-jump; members are numbered, so one that leaves renumbers those after it", false, func() placer { return jumpHash }},
		{"consistent, bounded loads", "buraksezer/consistent, load 1.25, 100 virtual nodes", false, func() placer { return bounded }},
		{"Tenure, shard.Planner", "", true, planner},
	}
}

// Placement holds the ways to place shards against what balance needs.
func Placement() *report.Table {
	t := &report.Table{
		ID: "placement", Plot: "worst_load",
		Question: "One member joins, then another leaves: how even are the loads, and how many shards move?",
		Conditions: "No server: a pure function of the members. 1024 shards; 10, 33 and 100 members, of which one more joins and then the fifth leaves. " +
			"Needed is the least number of moves after which the loads differ by 1 at most.",
		Columns: []report.Column{
			{Key: "load_10", Name: "10: max/mean"},
			{Key: "moves_10", Name: "moves/needed"},
			{Key: "load_33", Name: "33: max/mean"},
			{Key: "moves_33", Name: "moves/needed"},
			{Key: "load_100", Name: "100: max/mean"},
			{Key: "moves_100", Name: "moves/needed"},
			{Key: "worst_load", Name: "worst max/mean"},
		},
	}
	const shards = 1024
	for _, p := range placers() {
		row := report.Row{Name: p.name, Ours: p.ours, Note: p.note}
		worst := 0.0
		for _, n := range []int{10, 33, 100} {
			place := p.make()
			before := named(n)
			joined := append(named(n), "member-"+strconv.Itoa(n))
			left := append(append([]string{}, joined[:4]...), joined[5:]...)
			a := place(shards, before)
			b := place(shards, joined)
			c := place(shards, left)
			load := max(imbalance(a, before), imbalance(b, joined), imbalance(c, left))
			worst = max(worst, load)
			row.Set(fmt.Sprint("load_", n), load)
			// At least the joiner's share and the leaver's have to move.
			needed := shards/len(joined) + shards/len(joined)
			row.Set(fmt.Sprint("moves_", n), float64(moved(a, b)+moved(b, c))/float64(needed))
		}
		row.Set("worst_load", worst)
		t.Rows = append(t.Rows, row)
	}
	return t
}

func named(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "member-" + strconv.Itoa(i)
	}
	return names
}

func imbalance(owners, members []string) float64 {
	loads := map[string]int{}
	most := 0
	for _, o := range owners {
		loads[o]++
		most = max(most, loads[o])
	}
	return float64(most) * float64(len(members)) / float64(len(owners))
}

func moved(a, b []string) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func each(shards int, owner func(shard int) string) []string {
	owners := make([]string, shards)
	for i := range owners {
		owners[i] = owner(i)
	}
	return owners
}

func shardName(i int) string { return "shard-" + strconv.Itoa(i) }

func ring(shards int, members []string) []string {
	r := consistenthash.New(100, func(b []byte) uint32 { return uint32(xxhash.Sum64(b)) })
	r.Add(members...)
	return each(shards, func(i int) string { return r.Get(shardName(i)) })
}

func rendezvousHash(shards int, members []string) []string {
	r := rendezvous.New(members, xxhash.Sum64String)
	return each(shards, func(i int) string { return r.Lookup(shardName(i)) })
}

func jumpHash(shards int, members []string) []string {
	return each(shards, func(i int) string { return members[jump.Hash(xxhash.Sum64String(shardName(i)), len(members))] })
}

type ringMember string

func (m ringMember) String() string { return string(m) }

type xxh struct{}

func (xxh) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

func bounded(shards int, members []string) []string {
	var ms []consistent.Member
	for _, m := range members {
		ms = append(ms, ringMember(m))
	}
	r := consistent.New(ms, consistent.Config{Hasher: xxh{}, PartitionCount: shards, ReplicationFactor: 100, Load: 1.25})
	return each(shards, func(i int) string { return r.GetPartitionOwner(i).String() })
}

// planner goes on from where the shards are, as Tenure's does, and carries out all that it plans.
func planner() placer {
	var p shard.Planner
	var owners []string
	return func(shards int, members []string) []string {
		if owners == nil {
			owners = make([]string, shards)
		}
		present := map[string]bool{}
		var candidates []shard.Candidate
		for _, m := range members {
			present[m] = true
			candidates = append(candidates, shard.Candidate{ID: m, Weight: 1})
		}
		next := make([]string, shards)
		for i, o := range owners {
			if present[o] {
				next[i] = o
			}
		}
		for {
			plan := p.Plan(shard.PlanInput{Members: candidates, Owners: next})
			if len(plan.Grants)+len(plan.Moves) == 0 {
				break
			}
			for _, c := range append(plan.Grants, plan.Moves...) {
				next[c.Shard] = c.To
			}
		}
		owners = next
		return append([]string{}, next...)
	}
}
