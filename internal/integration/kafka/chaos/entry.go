package main

import (
	"fmt"

	"github.com/tenure-go/tenure/shard"
)

// entry is a record's value: the Seq-th of its key, counted from 1, adds Amount.
type entry struct{ Seq, Amount int64 }

func (e entry) value() []byte { return fmt.Appendf(nil, "%d %d", e.Seq, e.Amount) }

func parseEntry(value []byte) (e entry, err error) {
	if n, err := fmt.Sscanf(string(value), "%d %d", &e.Seq, &e.Amount); n != 2 || err != nil {
		return e, fmt.Errorf("not an entry: %q", value)
	}
	return e, nil
}

// account is what all entries of a key make. Wrong counts those that were not the next.
type account struct{ Sum, Seq, Wrong int64 }

func (a account) add(e entry) account {
	if e.Seq != a.Seq+1 {
		a.Wrong++
	}
	a.Seq, a.Sum = e.Seq, a.Sum+e.Amount
	return a
}

const shards = 8

// groupOf is a run's group of that name.
func groupOf(name, run string) shard.Group {
	return shard.Group{Name: name + "-" + run, Shards: shards}
}
