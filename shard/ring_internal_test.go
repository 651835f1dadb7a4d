package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A ring that has lived through any changes answers as a new one does.
func TestRingForgetsItsPast(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		var kept ring
		for range 20 {
			var names []string
			for i := range 25 {
				if r.IntN(3) > 0 {
					names = append(names, fmt.Sprint("n", i), fmt.Sprint("n", i, "\x00"))
				}
			}
			if r.IntN(2) == 0 && len(kept.names) > 2 {
				names = slices.Clone(kept.names[r.IntN(3):]) // a few go, and the ring is not rebuilt
				names = append(names, "one-more")
			}
			slices.Sort(names)
			names = slices.Compact(names)
			shards := 20 + 200*r.IntN(2) // at times fewer than members
			var fresh ring
			kept.set(names, shards)
			fresh.set(names, shards)
			for s := range shards {
				if len(names) > 0 && kept.of(s) != fresh.of(s) {
					t.Fatalf("seed %d: shard %d of %d at %q: kept %d, fresh %d", seed, s, shards, names, kept.of(s), fresh.of(s))
				}
			}
		}
		kept.set(nil, 10)
		if kept.c != nil {
			t.Error("an empty ring keeps the old one alive")
		}
	}
}
