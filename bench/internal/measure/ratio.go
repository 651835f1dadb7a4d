package measure

import (
	"math"
	"slices"
)

// Spread is a median with what it lies between.
type Spread struct{ Median, Least, Most float64 }

// SpreadOf is the spread of v; NaN if v is empty.
func SpreadOf(v []float64) Spread {
	if len(v) == 0 {
		return Spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(v))
	n := len(sorted)
	return Spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// Ratio is the spread of r's rate over other's, round by round.
func (r Result) Ratio(other Result) Spread {
	var ratios []float64
	for i := range min(len(r.Rates), len(other.Rates)) {
		if other.Rates[i] > 0 {
			ratios = append(ratios, r.Rates[i]/other.Rates[i])
		}
	}
	return SpreadOf(ratios)
}
