package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ledger is the receiver, and the witness: it accepts each key once, and notes what the nodes say.
type ledger struct {
	began    time.Time
	every    time.Duration
	kills    int
	repeated int // posts that a key showed to be known
	planned  map[time.Time]*planned
	keys     map[string]time.Time
	faults   []error
	inCharge string
	last     time.Time // accepted
}

// planned is what became of a planned time.
type planned struct {
	collected []string // by whom
	accepted  bool
}

func newLedger(every time.Duration) *ledger {
	return &ledger{began: time.Now(), every: every, planned: make(map[time.Time]*planned), keys: make(map[string]time.Time)}
}

func (l *ledger) say(format string, args ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

func (l *ledger) take(r report) {
	at := r.At.UTC()
	p := l.planned[at]
	if p == nil {
		p = &planned{}
		l.planned[at] = p
	}
	if r.Node != l.inCharge {
		l.inCharge = r.Node
		l.say("%s is in charge, and goes on with %s", r.Node, clock(at))
	}
	switch r.What {
	case collected:
		p.collected = append(p.collected, r.Node)
	case posted:
		l.accept(r, at, p)
	}
}

func (l *ledger) accept(r report, at time.Time, p *planned) {
	if of, known := l.keys[r.Key]; known {
		if !of.Equal(at) {
			l.faults = append(l.faults, fmt.Errorf("the runs of %s and %s have the same key", clock(of), clock(at)))
		}
		l.repeated++
		l.say("%s posts the run of %s again; the receiver knows its key", r.Node, clock(at))
		return
	}
	l.keys[r.Key] = at
	if p.accepted {
		l.faults = append(l.faults, fmt.Errorf("the run of %s was accepted twice, under two keys", clock(at)))
	}
	if !at.After(l.last) {
		l.faults = append(l.faults, fmt.Errorf("the run of %s came after that of %s", clock(at), clock(l.last)))
	}
	p.accepted = true
	l.last = at
}

// verdict is nil if every planned time up to the last was collected and accepted, once.
func (l *ledger) verdict() error {
	if l.last.IsZero() {
		return errors.Join(append(l.faults, errors.New("no run was finished: give it longer (-for)"))...)
	}
	var first time.Time
	for at, p := range l.planned {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if len(p.collected) > 1 {
			l.say("the run of %s was collected by %v: the first was killed before that was recorded", clock(at), p.collected)
		}
	}
	runs := 0
	for at := first; !at.After(l.last); at = at.Add(l.every) {
		runs++
		if p := l.planned[at]; p == nil || !p.accepted {
			l.faults = append(l.faults, fmt.Errorf("the run of %s was left out", clock(at)))
		}
	}
	if len(l.faults) > 0 {
		slices.SortFunc(l.faults, func(a, b error) int { return slices.Compare([]byte(a.Error()), []byte(b.Error())) })
		return fmt.Errorf("WRONG: %w", errors.Join(l.faults...))
	}
	fmt.Printf("\nGOOD: %d planned times, %d nodes killed in the middle of a run; each run accepted once, in order, none left out (%d posted again, and recognised)\n",
		runs, l.kills, l.repeated)
	return nil
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.0") }
