package measure

import (
	"math"
	"math/rand/v2"
	"sort"
)

// Zipf picks one of n accounts with a probability proportional to 1/rank^s: YCSB's "zipfian" is s = 0.99. (The one in
// math/rand demands s above 1.) s = 0 is uniform. It is exact: a table of the distribution, searched.
func Zipf(s float64, n int) func(*rand.Rand) int {
	upto := make([]float64, n)
	sum := 0.0
	for i := range upto {
		sum += math.Pow(float64(i+1), -s)
		upto[i] = sum
	}
	return func(r *rand.Rand) int {
		at := r.Float64() * sum
		return min(n-1, sort.SearchFloat64s(upto, at))
	}
}

// One picks the same account each time.
func One(*rand.Rand) int { return 0 }
