package shard

import (
	"cmp"
	"slices"
)

// Planner computes placements. The zero value is ready. It keeps the ring between plans and is
// deterministic all the same: a fresh Planner gives the same plan. Not safe for concurrent use; a
// plan costs milliseconds, tens of them at 65,536 shards on 1000 members, and the first of that size
// half a second, so it is not for the loop that renews.
type Planner struct{ ring ring }

// Plan returns the grants, moves and cancels that bring every member within its quota with the
// fewest changes of healthy owners. The order of input doesn't matter, and no input panics: what
// makes no sense (a shard that isn't there, a member that nobody knows) is passed over.
//
// Who gets shards: a member is eligible if it is not Opaque, not Draining and weighs more than 0,
// and a target for shard s unless it avoids s. Settling members are out of all that follows, save
// that they get the unclaimed shards for which there is no settled target; until they have settled
// they keep what they own. Opaque members keep what they own as well, and so do owners that are not
// in Members. What these own counts for no quota.
//
// What is fixed: a shard that is pinned to a target goes to it, and a shard with one target only
// goes to that. A shard without any stays where it is, or is in Unowned.
//
// The quota: a member's exact share is level*Weight, but no less than the shards fixed to it and no
// more than the shards it is a target for; level is such that the shares add up to the number of
// shards. Its quota is that share rounded down or up. With weights of 1 and nothing fixed or
// avoided that is shards/members, rounded. A Weight above MaxWeight counts as MaxWeight.
//
// The choice: of all placements of the remaining shards on targets, one in which the loads deviate
// least from the quotas (they don't, unless several members between them avoid too much); of those
// one that takes the fewest shards from healthy owners (eligible ones that don't avoid them); of
// those one that cancels the fewest pending moves. What is still free is settled by the ring where
// it can be, else by the order of IDs. A plan carried out in part, or held back by a limit, does
// not raise the total: the plan after it needs that much less.
//
// The exception: with more than 2^18 pairs of a set of members that avoid some shard and a member,
// the shards with the rarest such sets stay where they are, or are seated one by one, as if fixed.
//
// Pending moves: load counts at their target. One is cancelled if its target is no target any more,
// owns the shard, or was not chosen now; a shard with a pending move is never in Moves, so another
// target gets it in a later plan. Moves off or to a settling member, and off an opaque or unknown
// one, are left as they are while they fit. A grant of an unclaimed shard deletes its pending
// move in the same transaction: such a move is not in Cancels, and its target is preferred.
//
// Limits: MaxMoves and MaxDrains count every pending move, also those that this plan cancels. Of the
// moves that exceed MaxMoves, first those for balance wait, then those with the highest shards.
func (p *Planner) Plan(in PlanInput) Plan {
	v := read(in)
	seat := p.place(v)
	out := Plan{Cancels: v.adrift}
	var moves, drains []Change
	for s, o := range v.owner {
		to := seat[s]
		c := Change{Shard: s, From: in.Owners[s], To: v.name(to)}
		switch {
		case o == nobody && to == nobody:
			out.Unowned = append(out.Unowned, s)
			if v.target[s] != nobody {
				out.Cancels = append(out.Cancels, Change{s, "", v.to[s], NoTarget})
			}
		case o == nobody:
			c.Reason = Orphan
			out.Grants = append(out.Grants, c)
		case v.target[s] != nobody:
			if why := v.misfit(s, to); why != "" {
				out.Cancels = append(out.Cancels, Change{s, c.From, v.to[s], why})
			}
		case to == nobody || to == o:
		case v.leaves(o):
			c.Reason = Drain
			drains = append(drains, c)
		default:
			c.Reason = v.reason(s)
			moves = append(moves, c)
		}
	}
	moves = limit(moves, in.MaxMoves, v.flying)
	drains = limit(drains, in.MaxDrains, v.leaving)
	out.Moves = append(moves, drains...)
	byShard := func(a, b Change) int { return cmp.Compare(a.Shard, b.Shard) }
	slices.SortFunc(out.Moves, byShard)
	slices.SortStableFunc(out.Cancels, byShard)
	return out
}

// misfit says why the pending move of s, which is claimed, has to be cancelled, or "".
func (v *survey) misfit(s, to int) Reason {
	t, pin := v.target[s], v.pinned(s)
	switch {
	case !v.eligible(t) || v.avoids(s, t):
		return NoTarget
	case t == v.owner[s]:
		return Unneeded
	case pin != nobody && pin != t:
		return Pinned
	case v.alone(s) || !v.settled(t):
		return ""
	case t != to:
		return Unneeded
	}
	return ""
}

// reason is why s leaves an owner that is not itself leaving.
func (v *survey) reason(s int) Reason {
	switch {
	case v.pinned(s) != nobody:
		return Pinned
	case v.avoids(s, v.owner[s]):
		return Avoided
	}
	return Balance
}

// limit is the first of cs, those for balance last, that leave no more than most in flight.
func limit(cs []Change, most, pending int) []Change {
	if most <= 0 || len(cs)+pending <= most {
		return cs
	}
	slices.SortStableFunc(cs, func(a, b Change) int {
		switch {
		case a.Reason != Balance && b.Reason == Balance:
			return -1
		case a.Reason == Balance && b.Reason != Balance:
			return 1
		}
		return 0
	})
	return cs[:max(0, most-pending)]
}

// place says by shard which member should own it, or nobody where nothing is to be done.
func (p *Planner) place(v *survey) []int {
	seat := make([]int, len(v.owner))
	for s := range seat {
		seat[s] = nobody
	}
	var orphans []int
	t := newTable(v, v.settled)
	for s, o := range v.owner {
		fits := v.target[s] >= 0 && o != nobody && v.misfit(s, v.target[s]) == ""
		switch {
		case v.alone(s):
			if fits && o != stranger {
				t.charge(v.target[s])
			}
		case fits && !v.settled(v.target[s]):
			// Under way to a settling member.
		case t.full(s):
			if o == nobody {
				orphans = append(orphans, s)
			}
			t.charge(o)
		default:
			t.add(s)
		}
	}
	late := newTable(v, func(i int) bool { return v.eligible(i) && v.members[i].Settling })
	for _, s := range orphans {
		if !late.full(s) {
			late.add(s)
		}
	}
	for s, o := range v.owner {
		if v.alone(s) {
			late.charge(o)
		}
	}
	ringed := t
	if len(t.members) == 0 {
		ringed = late
	}
	p.ring.set(ringed.names(), len(v.owner))
	ringed.prefer = p.ring.of
	t.solve(seat)
	late.solve(seat)
	return seat
}
