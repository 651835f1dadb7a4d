package shard

// quota says how many shards each seat may hold: floor to ceil, and ceil at no more than spare of
// those where the two differ. The floors and spare add up to all the shards there are to hold.
type quota struct {
	floor, ceil []int
	spare       int
}

// share shares total shards out by weight (each at least 1). Seat i has no less than lo[i], which
// it is bound to hold, and no more than hi[i], which is all that it could hold; lo[i] <= hi[i],
// and total lies between their sums.
//
// The exact share of i is level*weight[i] held within lo[i] and hi[i], with the one level at which
// the shares add up to total. A quota is its exact share rounded down or up. The level is found as
// CSS finds the widths of flexible boxes: set a level as if there were no bounds, freeze at their
// bounds the seats on the side that offends more, and go on with the rest.
func share(total int, weight []int64, lo, hi []int) quota {
	n := len(weight)
	q := quota{floor: make([]int, n), ceil: make([]int, n)}
	open := make([]int, n)
	for i := range open {
		open[i] = i
	}
	rest := int64(total)
	for len(open) > 0 {
		var sum int64
		for _, i := range open {
			sum += weight[i]
		}
		// Everything is times sum, to stay in whole numbers: at most 2^16 * 10^6 * seats.
		var below, above int64
		for _, i := range open {
			exact := rest * weight[i]
			below += max(0, int64(lo[i])*sum-exact)
			above += max(0, exact-int64(hi[i])*sum)
		}
		if below == 0 && above == 0 {
			for _, i := range open {
				q.floor[i] = int(rest * weight[i] / sum)
				q.ceil[i] = q.floor[i]
				if rest*weight[i]%sum != 0 {
					q.ceil[i]++
				}
			}
			break
		}
		kept, left := open[:0], rest
		for _, i := range open {
			exact := rest * weight[i]
			switch {
			case below >= above && int64(lo[i])*sum > exact:
				q.floor[i], q.ceil[i] = lo[i], lo[i]
			case above >= below && int64(hi[i])*sum < exact:
				q.floor[i], q.ceil[i] = hi[i], hi[i]
			default:
				kept = append(kept, i)
				continue
			}
			left -= int64(q.floor[i])
		}
		open, rest = kept, left
	}
	q.spare = total
	for _, f := range q.floor {
		q.spare -= f
	}
	return q
}
