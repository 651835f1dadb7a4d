package shard_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tenure-go/tenure/shard"
)

// pick is a choice of 0..n-1: from a seed, or from a fuzzer's bytes.
type pick func(n int) int

func seeded(seed uint64) pick {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(n int) int { return r.IntN(n) }
}

func bytewise(b []byte) pick {
	return func(n int) int {
		if len(b) == 0 {
			return 0
		}
		x := int(b[0])
		b = b[1:]
		return x % n
	}
}

// names are prefixes of each other on purpose.
var names = []string{"n1", "n11", "n111", "n2", "n12", "n1\x00", "n", "n112"}

// shape makes a world that could be: what there is, is there once and within its range.
func shape(p pick, members, shards int, features bool) shard.PlanInput {
	in := shard.PlanInput{
		Owners: make([]string, p(shards)+1),
		Pins:   map[int]string{}, Avoids: map[int][]string{},
	}
	for _, name := range names[:p(members)+1] {
		m := shard.Candidate{ID: name, Weight: 1}
		switch p(8) {
		case 0:
			m.Weight = p(5)
		case 1:
			m.Weight = 1 + p(3)
		}
		if features {
			switch p(10) {
			case 0:
				m.Draining = true
			case 1:
				m.Settling = true
			case 2:
				m.Opaque = p(2) == 0
			}
		}
		in.Members = append(in.Members, m)
	}
	anybody := func() string { return in.Members[p(len(in.Members))].ID }
	lean := p(3) // owners: at random, or mostly one
	for s := range in.Owners {
		switch k := p(10); {
		case k == 0:
		case k == 1 && features && p(3) == 0:
			in.Owners[s] = "stranger"
		case lean > 0 && k > 4:
			in.Owners[s] = in.Members[0].ID
		default:
			in.Owners[s] = anybody()
		}
	}
	if !features {
		return in
	}
	heavy := p(4) == 0 // many avoids
	for s := range in.Owners {
		if p(6) == 0 {
			in.Pins[s] = anybody()
		}
		for range in.Members {
			if p(5) == 1 || heavy && p(2) == 1 {
				in.Avoids[s] = append(in.Avoids[s], anybody())
			}
		}
		if p(4) == 0 {
			in.Moves = append(in.Moves, shard.Pending{Shard: s, To: anybody()})
		}
	}
	in.MaxMoves, in.MaxDrains = p(4), p(4)
	return in
}

// nonsense spoils a shape in every way a store or a caller could.
func nonsense(p pick, in *shard.PlanInput) {
	weights := []int{0, -1, math.MinInt, math.MaxInt, math.MaxInt - 1, shard.MaxWeight, shard.MaxWeight + 1}
	for i := range in.Members {
		if p(3) == 0 {
			in.Members[i].Weight = weights[p(len(weights))]
		}
	}
	shards := []int{-1, math.MinInt, math.MaxInt, len(in.Owners), 0, p(len(in.Owners) + 1)}
	ids := []string{"", "stranger", "n1", "n\x001", "\xff"}
	for range p(6) {
		s, id := shards[p(len(shards))], ids[p(len(ids))]
		switch p(5) {
		case 0:
			in.Pins[s] = id
		case 1:
			in.Avoids[s] = append(in.Avoids[s], id, id)
		case 2:
			in.Moves = append(in.Moves, shard.Pending{Shard: s, To: id})
		case 3:
			in.Members = append(in.Members, shard.Candidate{ID: id, Weight: p(3), Opaque: p(2) == 0, Settling: p(2) == 0})
		case 4:
			in.Owners = append(in.Owners[:0:0], in.Owners[:p(len(in.Owners)+1)]...)
		}
	}
	in.MaxMoves, in.MaxDrains = p(5)-2, p(5)-2
}

// shuffled is in, in another order.
func shuffled(p pick, in shard.PlanInput) shard.PlanInput {
	swap := func(n int, f func(i, j int)) {
		for i := n - 1; i > 0; i-- {
			f(i, p(i+1))
		}
	}
	in.Members, in.Moves = slices.Clone(in.Members), slices.Clone(in.Moves)
	swap(len(in.Members), func(i, j int) { in.Members[i], in.Members[j] = in.Members[j], in.Members[i] })
	swap(len(in.Moves), func(i, j int) { in.Moves[i], in.Moves[j] = in.Moves[j], in.Moves[i] })
	avoids := map[int][]string{}
	for _, s := range slices.Backward(slices.Sorted(maps.Keys(in.Avoids))) {
		ids := slices.Clone(in.Avoids[s])
		swap(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		avoids[s] = ids
	}
	in.Avoids = avoids
	return in
}

// copied is in with owners and moves of its own.
func copied(in shard.PlanInput) shard.PlanInput {
	in.Owners, in.Moves = slices.Clone(in.Owners), slices.Clone(in.Moves)
	return in
}

func show(in shard.PlanInput) string {
	return fmt.Sprintf("members %+v\nowners %q\nmoves %+v\npins %v\navoids %v\nmax %d %d",
		in.Members, in.Owners, in.Moves, in.Pins, in.Avoids, in.MaxMoves, in.MaxDrains)
}
