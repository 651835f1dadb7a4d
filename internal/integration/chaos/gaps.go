package main

import (
	"slices"
	"time"
)

// gap is how long faults of a kind kept the shard that suffered most from being served, as clients see it.
type gap struct {
	kind           string
	count          int
	p50, p99, most time.Duration
}

// afterwards is how long after its end a fault may be the cause of a gap.
const afterwards = time.Second

// gapsOf looks, for each fault, for the longest time between two acknowledged operations on one shard that overlaps
// it. Faults overlap each other, so a gap may count for several.
func gapsOf(h *history) []gap {
	served := make([][]time.Duration, h.Group.Shards)
	var end time.Duration
	for _, o := range h.ops {
		end = max(end, o.Return)
		if o.Outcome == ok {
			s := h.Group.Of(o.Key)
			served[s] = append(served[s], o.Return)
		}
	}
	for s := range served {
		if len(served[s]) > 0 { // else nobody has asked
			slices.Sort(served[s])
			served[s] = append(served[s], end)
		}
	}
	longest := make(map[string][]time.Duration)
	for _, f := range h.faults {
		var most time.Duration
		for _, at := range served {
			most = max(most, longestIn(at, f.Start, f.End+afterwards))
		}
		longest[f.Kind] = append(longest[f.Kind], most)
	}
	var all []gap
	for _, k := range kinds {
		if l := longest[k.name]; len(l) > 0 {
			slices.Sort(l)
			all = append(all, gap{k.name, len(l), l[len(l)/2], l[len(l)*99/100], l[len(l)-1]})
		}
	}
	return all
}

// longestIn is the longest step between two of at, which is sorted, that overlaps the time from start to end.
func longestIn(at []time.Duration, start, end time.Duration) (most time.Duration) {
	i, _ := slices.BinarySearch(at, start)
	for ; i < len(at); i++ {
		before := time.Duration(0)
		if i > 0 {
			before = at[i-1]
		}
		if before > end {
			break
		}
		most = max(most, at[i]-before)
	}
	return most
}
