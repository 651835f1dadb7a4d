package shard

import (
	"cmp"
	"slices"
)

// What owner and target of a shard can be instead of a member's index.
const (
	nobody   = -1
	stranger = -2 // somebody who is not in Members
)

// survey is a PlanInput read into numbers. It is the same whatever the order of what was read, and
// has no more of what makes no sense: members and shards stand for themselves once.
type survey struct {
	members []Candidate // by ID
	owner   []int       // by shard: index into members, nobody, or stranger
	target  []int       // by shard: of its pending move: index into members, nobody if there is none, or stranger
	to      []string    // by shard: its pending move's To
	pin     []int       // by shard: index into members, or nobody
	avoid   [][]int     // by shard: sorted indices into members
	adrift  []Change    // cancels of moves for which there is no shard
	flying  int         // moves pending off members that stay
	leaving int         // moves pending off members that don't
}

func read(in PlanInput) *survey {
	owners := in.Owners[:min(len(in.Owners), MaxShards)]
	n := len(owners)
	v := &survey{
		members: merge(in.Members),
		owner:   make([]int, n),
		target:  make([]int, n),
		to:      make([]string, n),
		pin:     make([]int, n),
		avoid:   make([][]int, n),
	}
	at := make(map[string]int, len(v.members))
	for i, m := range v.members {
		at[m.ID] = i
	}
	index := func(id string) int {
		if id == "" {
			return nobody
		}
		if i, ok := at[id]; ok {
			return i
		}
		return stranger
	}
	for s, id := range owners {
		v.owner[s], v.target[s], v.pin[s] = index(id), nobody, nobody
	}
	for s, id := range in.Pins {
		if s >= 0 && s < n {
			v.pin[s] = max(index(id), nobody)
		}
	}
	for s, ids := range in.Avoids {
		if s < 0 || s >= n {
			continue
		}
		for _, id := range ids {
			if i := index(id); i >= 0 {
				v.avoid[s] = append(v.avoid[s], i)
			}
		}
		slices.Sort(v.avoid[s])
		v.avoid[s] = slices.Compact(v.avoid[s])
	}
	v.readMoves(in, index)
	return v
}

func (v *survey) readMoves(in PlanInput, index func(string) int) {
	moves := slices.Clone(in.Moves)
	slices.SortFunc(moves, func(a, b Pending) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.To, b.To))
	})
	for i, m := range moves {
		switch {
		case i > 0 && m == moves[i-1]:
		case m.Shard < 0 || m.Shard >= len(v.owner):
			v.adrift = append(v.adrift, Change{Shard: m.Shard, To: m.To, Reason: Unneeded})
		case v.target[m.Shard] != nobody:
			v.adrift = append(v.adrift, Change{m.Shard, in.Owners[m.Shard], m.To, Unneeded})
		default:
			v.to[m.Shard] = m.To
			if v.target[m.Shard] = index(m.To); v.target[m.Shard] == nobody {
				v.target[m.Shard] = stranger // a move to "" is a move all the same
			}
			if o := v.owner[m.Shard]; v.leaves(o) {
				v.leaving++
			} else if o != nobody {
				v.flying++
			}
		}
	}
}

// merge sorts members by ID and makes one of those with the same, in which the strictest word
// counts, so that their order does not.
func merge(members []Candidate) []Candidate {
	ms := slices.Clone(members)
	slices.SortFunc(ms, func(a, b Candidate) int { return cmp.Compare(a.ID, b.ID) })
	out := ms[:0]
	for _, m := range ms {
		m.Weight = min(m.Weight, MaxWeight)
		if m.ID == "" {
			continue // "" is how an unclaimed shard is written
		}
		if len(out) == 0 || out[len(out)-1].ID != m.ID {
			out = append(out, m)
			continue
		}
		l := &out[len(out)-1]
		l.Weight = min(l.Weight, m.Weight)
		l.Draining = l.Draining || m.Draining
		l.Settling = l.Settling || m.Settling
		l.Opaque = l.Opaque || m.Opaque
	}
	return out
}

func (v *survey) name(i int) string {
	if i < 0 {
		return ""
	}
	return v.members[i].ID
}

// eligible: may be given shards.
func (v *survey) eligible(i int) bool {
	return i >= 0 && !v.members[i].Opaque && !v.members[i].Draining && v.members[i].Weight > 0
}

// settled: eligible, and has a quota.
func (v *survey) settled(i int) bool { return v.eligible(i) && !v.members[i].Settling }

// leaves: gives all of its shards away.
func (v *survey) leaves(i int) bool {
	return i >= 0 && !v.members[i].Opaque && (v.members[i].Draining || v.members[i].Weight <= 0)
}

func (v *survey) avoids(s, i int) bool { return has(v.avoid[s], i) }

// pinned is the member that s is to go to because an operator said so, or nobody: a pin waits
// until its member is settled and does not avoid s.
func (v *survey) pinned(s int) int {
	if p := v.pin[s]; v.settled(p) && !v.avoids(s, p) {
		return p
	}
	return nobody
}

// alone reports whether s is out of the planner's hands for now: its owner is a stranger or
// unreadable, or has not settled (and neither it nor an operator asks for a change).
func (v *survey) alone(s int) bool {
	switch o := v.owner[s]; {
	case o == nobody:
		return false
	case o == stranger || v.members[o].Opaque:
		return true
	default:
		p := v.pinned(s)
		return v.eligible(o) && !v.settled(o) && !v.avoids(s, o) && (p == nobody || p == o)
	}
}
