package main

import (
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/shard"
)

// audit follows what a resource has accepted, row by row in the order of commits, and holds it against what the
// clients were told. The zero value is not valid; see newAudit.
type audit struct {
	shards map[int]*ledger
	values map[string]int64     // of registers, as the rows say
	seen   map[string][]applied // by operation of a client
	faults []error
}

// applied is a row and the register's value before it.
type applied struct {
	row
	before int64
}

// ledger is one shard's rows so far.
type ledger struct {
	n      int64
	epoch  shard.Epoch
	node   string
	epochs int // different ones
}

func newAudit() *audit {
	return &audit{shards: make(map[int]*ledger), values: make(map[string]int64), seen: make(map[string][]applied)}
}

// mostFaults is how many are told of: one cause has many consequences.
const mostFaults = 20

func (a *audit) fault(format string, args ...any) {
	if len(a.faults) == mostFaults {
		args, format = nil, "and more"
	}
	if len(a.faults) <= mostFaults {
		a.faults = append(a.faults, fmt.Errorf(format, args...))
	}
}

// shard is s's ledger.
func (a *audit) shard(s int) *ledger {
	l := a.shards[s]
	if l == nil {
		l = new(ledger)
		a.shards[s] = l
	}
	return l
}

// accepted takes the next rows of a shard.
func (a *audit) accepted(rows []row) {
	for _, r := range rows {
		l := a.shard(r.Shard)
		if r.N <= l.n {
			a.fault("shard %d: row %d comes after row %d", r.Shard, r.N, l.n)
		}
		switch {
		case r.Epoch < l.epoch:
			a.fault("shard %d: stale write accepted: row %d (%s, of %s) is under epoch %s, after one of %s under %s",
				r.Shard, r.N, r.ID, r.Node, r.Epoch, l.node, l.epoch)
		case r.Epoch == l.epoch && r.Node != l.node:
			a.fault("shard %d: row %d: %s and %s have both written under epoch %s", r.Shard, r.N, l.node, r.Node, r.Epoch)
		case r.Epoch > l.epoch:
			l.epoch, l.node = r.Epoch, r.Node
			l.epochs++
		}
		l.n = r.N
		if r.Twice {
			a.fault("shard %d: operation %s was applied twice", r.Shard, r.ID)
		}
		before := a.values[r.Key]
		want := r.Value
		switch r.Kind {
		case opBeat:
			want = before + 1
		case opFlush:
			want = before
		default:
			a.seen[r.ID] = append(a.seen[r.ID], applied{r, before})
		}
		if r.Value != want {
			a.fault("shard %d: %s of %s left %s at %d under epoch %s, want %d: it has overwritten what another had written",
				r.Shard, r.Kind, r.Node, r.Key, r.Value, r.Epoch, want)
		}
		a.values[r.Key] = r.Value
	}
}

// told takes what the clients were told.
func (a *audit) told(ops []op) {
	for _, o := range ops {
		if o.Kind == opRead {
			continue
		}
		rows := a.seen[o.ID]
		switch n := len(rows); {
		case n > 1:
			a.fault("operation %s (%s) was applied %d times", o.ID, o.Outcome, n)
		case o.Outcome == ok && n == 0:
			a.fault("operation %s, %s of %d on %s, was acknowledged by %s under epoch %s and is lost", o.ID, o.Kind, o.Arg, o.Key, o.Node, o.Epoch)
		case o.Outcome == fail && n > 0:
			a.fault("operation %s failed for certain (%s), and was applied by %s under epoch %s", o.ID, o.Err, rows[0].Node, rows[0].Epoch)
		}
		for _, r := range rows {
			if r.Key != o.Key || r.Kind != o.Kind {
				a.fault("operation %s, %s on %s, was applied as %s on %s", o.ID, o.Kind, o.Key, r.Kind, r.Key)
			}
			want := o.Arg
			if o.Kind == opAdd {
				want += r.before
			}
			if r.Value != want {
				a.fault("operation %s, %s of %d, found %s at %d and left it at %d: %s has overwritten what another had written",
					o.ID, o.Kind, o.Arg, o.Key, r.before, r.Value, r.Node)
			}
		}
		delete(a.seen, o.ID)
	}
	for id := range a.seen {
		a.fault("operation %s was applied, and nobody has sent it", id)
	}
}

// ends takes what the registers hold in the end.
func (a *audit) ends(finals []final) {
	for _, f := range finals {
		want, wrote := a.values[f.Key]
		if f.Value != want || !wrote {
			a.fault("register %s holds %d, its last row says %d (there is one: %t)", f.Key, f.Value, want, wrote)
		}
		delete(a.values, f.Key)
	}
	for key := range a.values {
		a.fault("register %s has rows and does not exist", key)
	}
}

// err is what was found.
func (a *audit) err() error { return errors.Join(a.faults...) }

// tenures counts the different epochs under which anything was written.
func (a *audit) tenures() (n int) {
	for _, l := range a.shards {
		n += l.epochs
	}
	return n
}
