package shard

import (
	"encoding/binary"
	"slices"
)

// What a placement costs, in tiers: no saving in a lower one outweighs a higher one, with at most
// MaxShards shards.
const (
	costCancel = 1       // a pending move that is not kept
	costMove   = 1 << 20 // a shard that leaves a healthy owner
	costOver   = 1 << 40 // a shard above a ceil, or missing below a floor
)

// unit is a shard to be seated.
type unit struct {
	shard  int
	home   int   // the seat of its healthy owner, or nobody
	target int   // the seat to which a move is pending, or nobody
	fixed  int   // the only seat for it, or nobody: chosen before
	avoid  []int // sorted seats
}

// seating is a problem: units to be placed on seats by weight. seat is its answer.
type seating struct {
	weight []int64
	base   []int // by seat: load that no unit accounts for
	units  []unit
	prefer func(shard int) int // the ring's choice of seat, or nobody

	seat    []int // by unit
	q       quota
	classes []class
	groups  []group
}

// class is units that are alike to the flow.
type class struct {
	home, target, group int
	units               []int // in the order of shards
	atHome, atTarget    int   // how many of them go there
	away                int   // and how many through the group
}

// group is the units that avoid the same seats: those not at home or target are exchangeable.
type group struct {
	avoid []int
	count int
	room  []int // by seat: how many of them go there
}

// load is, by seat, what has been seated so far and base.
func (p *seating) load() []int {
	load := slices.Clone(p.base)
	for _, s := range p.seat {
		if s != nobody {
			load[s]++
		}
	}
	return load
}

// solve seats every unit. There must be a seat for each: one that it doesn't avoid.
func (p *seating) solve() {
	p.seat = make([]int, len(p.units))
	p.classify()
	p.quotas()
	p.flow()
	p.pick()
	p.shift()
}

// maxGroupSeats bounds the arcs from groups to seats, and with it time and memory. Beyond it
// (1000 members and more than 262 different sets of members that avoid a shard) the shards of the
// rarest sets are seated one by one, and stay.
const maxGroupSeats = 1 << 18

func (p *seating) classify() {
	p.groups = []group{{}}
	groupOf := map[string]int{"": 0}
	groupAt := make([]int, len(p.units))
	for i := range p.units {
		u := &p.units[i]
		p.seat[i] = u.fixed
		if u.fixed == nobody && len(u.avoid) == len(p.weight)-1 {
			p.seat[i] = firstNot(u.avoid)
		}
		if p.seat[i] != nobody {
			continue
		}
		if len(u.avoid) > 0 {
			var key []byte
			for _, s := range u.avoid {
				key = binary.AppendUvarint(key, uint64(s))
			}
			g, ok := groupOf[string(key)]
			if !ok {
				g = len(p.groups)
				groupOf[string(key)] = g
				p.groups = append(p.groups, group{avoid: u.avoid})
			}
			groupAt[i] = g
		}
		p.groups[groupAt[i]].count++
	}
	p.seatRare(groupAt)
	p.toClasses(groupAt)
}

// toClasses makes classes of what is not seated.
func (p *seating) toClasses(groupAt []int) {
	type kind struct{ home, target, group int }
	at := map[kind]int{}
	plain := make([]int, len(p.weight)) // at, for nearly all: 0, or 1 + the class
	for i, u := range p.units {
		if p.seat[i] != nobody {
			continue
		}
		k := kind{u.home, u.target, groupAt[i]}
		c, ok := 0, false
		isPlain := k.home != nobody && k.target == nobody && k.group == 0
		if isPlain {
			c, ok = plain[k.home]-1, plain[k.home] > 0
		} else {
			c, ok = at[k]
		}
		if !ok {
			c = len(p.classes)
			p.classes = append(p.classes, class{home: k.home, target: k.target, group: k.group})
			if isPlain {
				plain[k.home] = c + 1
			} else {
				at[k] = c
			}
		}
		p.classes[c].units = append(p.classes[c].units, i)
	}
}

// seatRare seats the units of the rarest groups, if there are too many groups.
func (p *seating) seatRare(groupAt []int) {
	most := max(1, maxGroupSeats/len(p.weight))
	if len(p.groups) <= most {
		return
	}
	byCount := make([]int, len(p.groups)-1)
	for i := range byCount {
		byCount[i] = i + 1
	}
	slices.SortStableFunc(byCount, func(a, b int) int { return p.groups[b].count - p.groups[a].count })
	rare := make([]bool, len(p.groups))
	for _, g := range byCount[most-1:] {
		rare[g] = true
	}
	for i, u := range p.units {
		g := groupAt[i]
		if p.seat[i] != nobody || !rare[g] {
			continue
		}
		p.groups[g].count--
		next := u.shard % len(p.weight)
		for _, s := range []int{u.home, u.target, p.prefer(u.shard)} {
			if s != nobody && !has(u.avoid, s) {
				next = s
				break
			}
		}
		for has(u.avoid, next) {
			next = (next + 1) % len(p.weight)
		}
		p.seat[i] = next
	}
}

// has reports whether the sorted list has n.
func has(list []int, n int) bool {
	_, ok := slices.BinarySearch(list, n)
	return ok
}

// firstNot is the least number that the sorted list lacks.
func firstNot(list []int) int {
	for i, s := range list {
		if i != s {
			return i
		}
	}
	return len(list)
}

// quotas shares out what is seated and what is not by weight.
func (p *seating) quotas() {
	lo := p.load()
	free, total := 0, 0
	for _, g := range p.groups {
		free += g.count
	}
	hi := make([]int, len(lo))
	for i, n := range lo {
		total += n
		hi[i] = n + free
	}
	for _, g := range p.groups {
		for _, s := range g.avoid {
			hi[s] -= g.count
		}
	}
	p.q = share(total+free, p.weight, lo, hi)
}
