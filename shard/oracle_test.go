package shard_test

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/tenure-go/tenure/shard"
)

// oracle is what Planner.Plan promises, written down a second time without its cleverness: it tries
// every placement. Shapes have to be small.
type oracle struct {
	in      shard.PlanInput
	member  map[string]shard.Candidate
	targets []string            // settled eligible members, sorted
	base    map[string]int      // loads of targets that no shard in free or fixed accounts for
	fixed   map[int]string      // shards of which it is certain where they go
	free    []int               // the others that have to go to some target
	late    []int               // unclaimed shards without a target
	still   map[int]bool        // claimed shards that nothing may happen to
	pending map[int]string      // moves that may be kept
	share   map[string]*big.Rat // exact share of each target
	quota   map[string]struct{ lo, hi int }
}

func consult(in shard.PlanInput) *oracle {
	o := &oracle{
		in: in, member: map[string]shard.Candidate{}, base: map[string]int{},
		fixed: map[int]string{}, still: map[int]bool{}, pending: map[int]string{},
	}
	for _, m := range in.Members {
		o.member[m.ID] = m
		if o.eligible(m.ID) && !m.Settling {
			o.targets = append(o.targets, m.ID)
		}
	}
	slices.Sort(o.targets)
	for _, m := range in.Moves {
		if o.eligible(m.To) && !o.avoids(m.Shard, m.To) && m.To != in.Owners[m.Shard] {
			if p := o.pin(m.Shard); p == "" || p == m.To {
				o.pending[m.Shard] = m.To
			}
		}
	}
	for s, owner := range in.Owners {
		o.sort(s, owner)
	}
	o.shares()
	return o
}

func (o *oracle) eligible(id string) bool {
	m, ok := o.member[id]
	return ok && !m.Opaque && !m.Draining && m.Weight > 0
}

func (o *oracle) avoids(s int, id string) bool { return slices.Contains(o.in.Avoids[s], id) }

func (o *oracle) target(s int, id string) bool {
	return slices.Contains(o.targets, id) && !o.avoids(s, id)
}

func (o *oracle) pin(s int) string {
	if p := o.in.Pins[s]; o.target(s, p) {
		return p
	}
	return ""
}

// healthy owners are those from which it costs a move to take s.
func (o *oracle) healthy(s int, id string) bool { return o.target(s, id) }

func (o *oracle) sort(s int, owner string) {
	m, known := o.member[owner]
	to, moving := o.pending[s]
	var ways []string
	for _, t := range o.targets {
		if o.target(s, t) {
			ways = append(ways, t)
		}
	}
	unasked := !o.avoids(s, owner) && (o.pin(s) == "" || o.pin(s) == owner)
	switch {
	case owner != "" && !known:
		o.still[s] = true
	case known && (m.Opaque || o.eligible(owner) && m.Settling && unasked):
		o.still[s] = true
		if moving && slices.Contains(o.targets, to) {
			o.base[to]++
		}
	case owner != "" && moving && !slices.Contains(o.targets, to):
		o.still[s] = true // under way to a settling member
	case len(ways) == 0 && owner == "":
		o.late = append(o.late, s)
	case len(ways) == 0:
		o.still[s] = true
		if slices.Contains(o.targets, owner) {
			o.base[owner]++
		}
	case o.pin(s) != "":
		o.fixed[s] = o.pin(s)
	case len(ways) == 1:
		o.fixed[s] = ways[0]
	default:
		o.free = append(o.free, s)
	}
}

// shares finds the level by trying all levels at which some share meets a bound of its own, and
// the straight line between two neighbours.
func (o *oracle) shares() {
	o.share = map[string]*big.Rat{}
	o.quota = map[string]struct{ lo, hi int }{}
	if len(o.targets) == 0 {
		return
	}
	rat := func(n int) *big.Rat { return new(big.Rat).SetInt64(int64(n)) }
	total, lo, hi := len(o.free), map[string]int{}, map[string]int{}
	for _, t := range o.targets {
		total += o.base[t]
		lo[t] = o.base[t]
		for _, f := range o.fixed {
			if f == t {
				lo[t]++
				total++
			}
		}
		hi[t] = lo[t]
		for _, s := range o.free {
			if o.target(s, t) {
				hi[t]++
			}
		}
	}
	at := func(level *big.Rat, t string) *big.Rat {
		x := new(big.Rat).Mul(level, rat(o.member[t].Weight))
		if x.Cmp(rat(lo[t])) < 0 {
			return rat(lo[t])
		}
		if x.Cmp(rat(hi[t])) > 0 {
			return rat(hi[t])
		}
		return x
	}
	sum := func(level *big.Rat) *big.Rat {
		all := new(big.Rat)
		for _, t := range o.targets {
			all.Add(all, at(level, t))
		}
		return all
	}
	levels := []*big.Rat{new(big.Rat)}
	for _, t := range o.targets {
		w := rat(o.member[t].Weight)
		levels = append(levels, new(big.Rat).Quo(rat(lo[t]), w), new(big.Rat).Quo(rat(hi[t]), w))
	}
	slices.SortFunc(levels, (*big.Rat).Cmp)
	i := slices.IndexFunc(levels, func(l *big.Rat) bool { return sum(l).Cmp(rat(total)) >= 0 })
	level := levels[i]
	if i > 0 && sum(level).Cmp(rat(total)) > 0 {
		a, b := levels[i-1], levels[i]
		rise := new(big.Rat).Sub(sum(b), sum(a))
		part := new(big.Rat).Quo(new(big.Rat).Sub(rat(total), sum(a)), rise)
		level = new(big.Rat).Add(a, part.Mul(part, new(big.Rat).Sub(b, a)))
	}
	for _, t := range o.targets {
		x := at(level, t)
		o.share[t] = x
		floor := int(new(big.Int).Quo(x.Num(), x.Denom()).Int64())
		ceil := floor
		if !x.IsInt() {
			ceil++
		}
		o.quota[t] = struct{ lo, hi int }{floor, ceil}
	}
}

// deviation is by how much loads are out of quota, in shards.
func (o *oracle) deviation(load map[string]int) int {
	d := 0
	for _, t := range o.targets {
		d += max(0, load[t]-o.quota[t].hi) + max(0, o.quota[t].lo-load[t])
	}
	return d
}

// cost is what a placement costs, tier by tier.
type cost struct{ deviation, moves, cancels int }

func (c cost) compare(d cost) int {
	return cmp.Or(cmp.Compare(c.deviation, d.deviation), cmp.Compare(c.moves, d.moves), cmp.Compare(c.cancels, d.cancels))
}

func (o *oracle) price(s int, to string) cost {
	var c cost
	owner := o.in.Owners[s]
	if o.healthy(s, owner) && to != owner {
		c.moves++
	}
	if t, ok := o.pending[s]; ok && t != to {
		c.cancels++
	}
	return c
}

// best is the least cost of all placements.
func (o *oracle) best() cost {
	load := map[string]int{}
	for t, n := range o.base {
		load[t] = n
	}
	var sunk cost
	for s, t := range o.fixed {
		load[t]++
		c := o.price(s, t)
		sunk.moves += c.moves
		sunk.cancels += c.cancels
	}
	least := cost{deviation: 1 << 30}
	var try func(i int, c cost)
	try = func(i int, c cost) {
		if i == len(o.free) {
			c.deviation = o.deviation(load)
			if c.compare(least) < 0 {
				least = c
			}
			return
		}
		s := o.free[i]
		for _, t := range o.targets {
			if o.target(s, t) {
				p := o.price(s, t)
				load[t]++
				try(i+1, cost{0, c.moves + p.moves, c.cancels + p.cancels})
				load[t]--
			}
		}
	}
	try(0, sunk)
	return least
}
