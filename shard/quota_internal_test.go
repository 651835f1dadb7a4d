package shard

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// share finds the level exactly; here it is found by halving.
func TestShareIsTheLevel(t *testing.T) {
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 0))
		n := 1 + r.IntN(6)
		weight, lo, hi := make([]int64, n), make([]int, n), make([]int, n)
		least, most := 0, 0
		for i := range n {
			weight[i], lo[i] = 1+int64(r.IntN(9)), r.IntN(10)
			hi[i] = lo[i] + r.IntN(30)
			least, most = least+lo[i], most+hi[i]
		}
		total := least + r.IntN(most-least+1)
		got := share(total, weight, lo, hi)

		exact := func(level float64, i int) float64 {
			return min(max(level*float64(weight[i]), float64(lo[i])), float64(hi[i]))
		}
		low, high := 0.0, 100.0
		for range 100 {
			mid, sum := (low+high)/2, 0.0
			for i := range n {
				sum += exact(mid, i)
			}
			if sum < float64(total) {
				low = mid
			} else {
				high = mid
			}
		}
		want := quota{spare: total}
		for i := range n {
			x := exact(high, i)
			want.floor = append(want.floor, int(math.Floor(x+1e-9)))
			want.ceil = append(want.ceil, int(math.Ceil(x-1e-9)))
			want.spare -= want.floor[i]
		}
		if !slices.Equal(got.floor, want.floor) || !slices.Equal(got.ceil, want.ceil) || got.spare != want.spare {
			t.Fatalf("seed %d: %d by %v within %v and %v: got %+v, want %+v", seed, total, weight, lo, hi, got, want)
		}
	}
}
