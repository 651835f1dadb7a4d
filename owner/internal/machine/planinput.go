package machine

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// planInput is the level state that the plan is made from.
func (m *Machine) planInput() shard.PlanInput {
	v := m.view
	in := shard.PlanInput{
		Owners:   make([]string, len(v.Claims)),
		Pins:     make(map[int]string, len(v.Pins)),
		Avoids:   make(map[int][]string, len(v.Avoids)),
		MaxMoves: max(8, len(v.Claims)/64), // drains don't wait: no limit
	}
	cold := !v.Claimed()
	for id, mb := range v.Members {
		settled := m.plan.joins[id].at + m.c.Settle
		settling := !cold && m.now < settled
		if settling {
			m.planAgain(settled)
		}
		in.Members = append(in.Members, shard.Candidate{
			ID: id, Weight: mb.Weight, Draining: mb.Draining, Settling: settling, Opaque: mb.Err != nil,
		})
	}
	slices.SortFunc(in.Members, func(a, b shard.Candidate) int { return cmp.Compare(a.ID, b.ID) })
	for s := range v.Claims {
		in.Owners[s] = m.ownerOf(s)
	}
	for s, mv := range v.Moves {
		in.Moves = append(in.Moves, shard.Pending{Shard: s, To: m.memberOr(mv.Lease)})
	}
	slices.SortFunc(in.Moves, func(a, b shard.Pending) int { return a.Shard - b.Shard })
	for s, id := range v.Pins {
		in.Pins[s] = id
	}
	for s, who := range v.Avoids {
		for id, av := range who {
			if v.Members[id].Lease == av.Lease { // it ends with its member
				in.Avoids[s] = append(in.Avoids[s], id)
			}
		}
		slices.Sort(in.Avoids[s])
	}
	return in
}

// ownerOf is who holds s, for a plan.
func (m *Machine) ownerOf(s int) string {
	c := m.view.Claims[s]
	if c.Rev == 0 {
		return ""
	}
	return m.memberOr(c.Lease)
}

// memberOr is the member that has lease, else a name that is no member's: none has a slash.
func (m *Machine) memberOr(lease cas.LeaseID) string {
	if id, ok := m.view.MemberOf(lease); ok {
		return id
	}
	return "lease/" + strconv.FormatInt(int64(lease), 16)
}
