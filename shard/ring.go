package shard

import (
	"slices"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
)

// ring is a consistent-hash ring that is kept from plan to plan, since a new one of 1000 members
// and 65,536 shards takes a good part of a second. What it answers depends on the members it has
// now, never on how it came to have them. The zero value is empty.
type ring struct {
	names []string // sorted: who is on it
	parts int
	c     *consistent.Consistent
}

// ringName makes a member's points differ from those of all others. The library's point i of member
// m is the hash of m's name and i in decimal, one after the other, so that "node1" and "node11" have
// points in common, which go to whoever was added last.
type ringName string

func (n ringName) String() string { return string(n) + "\x00" }

type ringHash struct{}

func (ringHash) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

// set makes the members of r those of names, sorted and each once, over so many shards.
func (r *ring) set(names []string, shards int) {
	// The library panics if there are more members than partitions. A partition's place on the ring
	// doesn't depend on their number, so there can be more of them than shards.
	parts := max(shards, len(names))
	if len(names) == 0 || shards == 0 {
		*r = ring{}
		return
	}
	gone, come := difference(r.names, names), difference(names, r.names)
	// Adding or removing one redistributes all partitions, at about a twentieth of what a new ring costs.
	if r.c == nil || r.parts != parts || len(gone) == len(r.names) || len(gone)+len(come) > 8 {
		members := make([]consistent.Member, len(names))
		for i, n := range names {
			members[i] = ringName(n)
		}
		r.c = consistent.New(members, consistent.Config{Hasher: ringHash{}, PartitionCount: parts})
	} else {
		// In this order, so that there are never more members than partitions.
		for _, n := range gone {
			r.c.Remove(ringName(n).String())
		}
		for _, n := range come {
			r.c.Add(ringName(n))
		}
	}
	r.names, r.parts = slices.Clone(names), parts
}

// of is the member that the ring chooses for shard s, an index into the names that were set.
func (r *ring) of(s int) int {
	i, _ := slices.BinarySearch(r.names, string(r.c.GetPartitionOwner(s).(ringName)))
	return i
}

// difference is what a has and b lacks; both are sorted.
func difference(a, b []string) []string {
	var only []string
	for _, s := range a {
		if _, ok := slices.BinarySearch(b, s); !ok {
			only = append(only, s)
		}
	}
	return only
}
