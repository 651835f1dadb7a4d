package shard_test

import (
	"fmt"
	"testing"

	"github.com/tenure-go/tenure/shard"
)

// cluster is a placement of shards over members m0000, m0001, … that has settled.
func cluster(p *shard.Planner, shards, members int) shard.PlanInput {
	in := shard.PlanInput{Owners: make([]string, shards)}
	for i := range members {
		in.Members = append(in.Members, shard.Candidate{ID: fmt.Sprintf("m%04d", i), Weight: 1})
	}
	carryOut(&in, p.Plan(in))
	return in
}

// carryOut applies all of a plan, moves pending before it included.
func carryOut(in *shard.PlanInput, out shard.Plan) {
	for _, c := range append(out.Grants, out.Moves...) {
		in.Owners[c.Shard] = c.To
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, size := range []struct{ shards, members int }{{64, 3}, {1024, 30}, {65536, 1000}} {
		name := fmt.Sprintf("shards=%d/members=%d/", size.shards, size.members)
		var p shard.Planner
		full := cluster(&p, size.shards, size.members)
		last := size.members - 1

		without := full
		without.Members = full.Members[:last]
		without.Owners = nil
		for _, o := range full.Owners {
			if o == full.Members[last].ID {
				o = ""
			}
			without.Owners = append(without.Owners, o)
		}
		few := cluster(&p, size.shards, last)
		grown := few
		grown.Members = full.Members

		b.Run(name+"steady", func(b *testing.B) {
			p.Plan(full)
			b.ReportAllocs()
			for b.Loop() {
				p.Plan(full)
			}
		})
		alternate := func(one, other shard.PlanInput) func(*testing.B) {
			return func(b *testing.B) {
				p.Plan(other)
				b.ReportAllocs()
				for b.Loop() {
					p.Plan(one)
					b.StopTimer()
					p.Plan(other) // so that the ring changes each time
					b.StartTimer()
				}
			}
		}
		b.Run(name+"leave", alternate(without, full))
		b.Run(name+"join", alternate(grown, few))
		b.Run(name+"fresh", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				new(shard.Planner).Plan(full)
			}
		})
	}
}
