package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tenure-go/tenure/shard"
)

// place names a record.
type place struct {
	kind      kind
	partition int32
	offset    int64
}

func (p place) String() string { return fmt.Sprintf("%s/%d@%d", p.kind, p.partition, p.offset) }

// logged is a record as a plain client reads it.
type logged struct {
	place
	customer string // the key
	value    []byte
}

// dead is a dead letter, by its headers.
type dead struct {
	place
	why   string
	tries int
}

// evidence is all that is known in the end.
type evidence struct {
	group    shard.Group
	produced int                  // acknowledged to the producer
	spoilt   map[place]flaw       // by the producer
	log      []logged             // both topics, each partition in its order
	entries  []entry              // in the order in which they were written
	accounts map[string]account   // in the database
	answers  map[string]statement // of the owners
	dead     []dead
	lag      lagAnswer // of the owners
	stale    int       // answers that were older than one before
}

// findings are what verify has counted. good says whether all is as it must be.
type findings struct {
	Records, Applied int
	Lost             int // sound, and no entry
	Twice            int // entries too many
	Disordered       int // entries after one of a later record of the same customer and topic
	Foreign          int // entries for what is no sound record, or that say something else than it
	Accounts         int // that are not what the replay makes
	Answers          int // of owners that are not
	Spoilt, Dead     int
	Undead           int // spoilt, and no dead letter
	Sound            int // dead letters of sound records, or that don't say why, or a number of tries that can't be
	Again            int // dead letters that are there twice, as a kill between the letter and the position leaves them: allowed
	faults           []string
}

func (f *findings) good() bool { return len(f.faults) == 0 }

// count notes a fault.
func (f *findings) count(n *int, format string, args ...any) {
	*n++
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// verify replays the log, one record after the other, and compares.
func verify(e evidence) *findings {
	f := &findings{Records: len(e.log), Applied: len(e.entries), Spoilt: len(e.spoilt)}
	other := 0 // faults that have no count of their own
	if len(e.log) != e.produced {
		f.count(&other, "the topics have %d records, the producer was told of %d", len(e.log), e.produced)
	}
	sound := make(map[place]entry)
	want := make(map[string]account)
	numbers := make(map[string]int64)
	for _, r := range e.log {
		ev, why := judge(e.group, r)
		if why != e.spoilt[r.place] {
			f.count(&other, "%v: the producer made it %q, and it is %q", r.place, e.spoilt[r.place], why)
		}
		if why != "" {
			continue
		}
		of := string(r.kind) + r.customer
		if numbers[of]++; ev.Number != numbers[of] {
			f.count(&other, "%v: it is number %d of %s, and the topic has %d before it", r.place, ev.Number, r.customer, numbers[of]-1)
		}
		sound[r.place] = entry{r.place, r.customer, ev}
		want[r.customer] = want[r.customer].with(r.kind, ev)
	}
	f.entries(e, sound)
	f.balances(e, want)
	f.letters(e)
	if e.lag.Lag != 0 || !e.lag.Known {
		f.count(&other, "the owners say of what waits: %+v", e.lag)
	}
	if e.stale > 0 {
		f.count(&other, "%d answers were older than one before", e.stale)
	}
	return f
}

// judge is what is wrong with a record, if anything: what the nodes should find out, said in another way.
func judge(g shard.Group, r logged) (event, flaw) {
	e, err := parseEvent(r.value)
	switch {
	case g.Of(r.customer) != int(r.partition):
		return e, misplaced
	case err != nil:
		return e, malformed
	case e.Cents < 1 || e.Cents > mostCents:
		return e, refused
	}
	return e, sound
}

// entries: each sound record once, as it is, and each customer's in the topic's order.
func (f *findings) entries(e evidence, sound map[place]entry) {
	seen := make(map[place]bool)
	last := make(map[string]int64) // offset, by kind and customer
	for _, got := range e.entries {
		of := string(got.kind) + got.customer
		switch record, ok := sound[got.place]; {
		case got != record:
			f.count(&f.Foreign, "%v was applied as %+v, and is %+v (a sound record: %t)", got.place, got, record, ok)
		case seen[got.place]:
			f.count(&f.Twice, "%v was applied once more", got.place)
		case got.offset < last[of]:
			f.count(&f.Disordered, "%v was applied after %d of the same customer", got.place, last[of])
		default:
			last[of] = got.offset
		}
		seen[got.place] = true
	}
	for _, p := range sorted(sound) {
		if !seen[p] {
			f.count(&f.Lost, "%v was not applied", p)
		}
	}
}

// balances: the database and the owners have what the replay makes, and no more customers.
func (f *findings) balances(e evidence, want map[string]account) {
	customers := maps.Clone(want)
	maps.Copy(customers, e.accounts)
	for c := range e.answers {
		customers[c] = account{}
	}
	for _, c := range slices.Sorted(maps.Keys(customers)) {
		if got := e.accounts[c]; got != want[c] {
			f.count(&f.Accounts, "%s: the database has %+v, the replay makes %+v", c, got, want[c])
		}
		if got := e.answers[c]; got.account != want[c] || got.Due != want[c].due() {
			f.count(&f.Answers, "%s: its owner says %+v, the replay makes %+v", c, got, want[c])
		}
	}
}

// letters: each spoilt record is in the dead-letter topic, with why and how often, and nothing else is.
func (f *findings) letters(e evidence) {
	seen := make(map[place]bool)
	for _, d := range e.dead {
		why := e.spoilt[d.place]
		most := map[flaw]int{malformed: 1, refused: tries, misplaced: 0}[why]
		switch {
		case why == sound:
			f.count(&f.Sound, "%v was put away (%s), and is sound", d.place, d.why)
		case seen[d.place]:
			f.Again++
		case d.why == "" || d.tries != most:
			f.count(&f.Sound, "%v was put away after %d tries, want %d, because of %q", d.place, d.tries, most, d.why)
		default:
			f.Dead++
		}
		seen[d.place] = true
	}
	for _, p := range sorted(e.spoilt) {
		if !seen[p] {
			f.count(&f.Undead, "%v is %s, and there is no dead letter of it", p, e.spoilt[p])
		}
	}
}

func sorted[V any](m map[place]V) []place {
	return slices.SortedFunc(maps.Keys(m), func(x, y place) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.partition, y.partition), cmp.Compare(x.offset, y.offset))
	})
}
