package accounts

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// span is from one time to another.
type span struct{ from, to time.Duration }

func (s span) overlaps(o span) bool { return s.from <= o.to && o.from <= s.to }

// gaps are times in which an account was not served, as its clients saw it.
type gaps []time.Duration

// waits has, for each restart, the longest time that a request for the account took which overlaps it.
func waits(acks, restarts []span) (g gaps) {
	for _, r := range restarts {
		var most time.Duration
		for _, a := range acks {
			if a.overlaps(r) {
				most = max(most, a.to-a.from)
			}
		}
		if most > 0 {
			g = append(g, most)
		}
	}
	return g
}

// silences has, for each restart, the longest time between two acknowledgements for the account that overlaps it. It can't be
// below the time that lies between requests for one account anyway.
func silences(acks, restarts []span) (g gaps) {
	acks = slices.SortedFunc(slices.Values(acks), func(a, b span) int { return cmp.Compare(a.to, b.to) })
	for _, r := range restarts {
		var most time.Duration
		for i := 1; i < len(acks); i++ {
			if between := (span{acks[i-1].to, acks[i].to}); between.overlaps(r) {
				most = max(most, between.to-between.from)
			}
		}
		if most > 0 {
			g = append(g, most)
		}
	}
	return g
}

func (g gaps) String() string {
	if len(g) == 0 {
		return "none"
	}
	slices.Sort(g)
	at := func(percent int) time.Duration {
		return g[min(len(g)-1, len(g)*percent/100)].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, max %v (of %d)", at(50), at(99), at(100), len(g))
}
