package main

import "math/rand/v2"

// phase is where a kill cut a payment off. What the records say after the death decides it, not what was meant.
type phase int

const (
	beforeCharge phase = iota // the provider has not charged
	chargedOnly               // charged, and not booked
	bookedOnly                // booked, and the operation is not recorded as done
	finishing                 // recorded as done, and still in the queue
	phases
)

func (p phase) String() string {
	return [...]string{"before the charge", "between charge and booking", "after booking", "while finishing"}[p]
}

// begins is the moment at which a phase begins.
func (p phase) begins() moment { return [...]moment{charging, charged, booked, recorded}[p] }

// state is what the records say of a payment.
type state struct{ charged, booked, recorded, queued bool }

// phase is the one that a payment in this state is in; ok is false if it is through.
func (s state) phase() (p phase, ok bool) {
	switch {
	case !s.queued:
		return 0, false
	case s.recorded:
		return finishing, true
	case s.booked:
		return bookedOnly, true
	case s.charged:
		return chargedOnly, true
	}
	return beforeCharge, true
}

// aim chooses where to kill next. Its choices follow from the seed and from where kills have landed; what a run comes to
// depends on the machine as well.
type aim struct {
	rng    *rand.Rand
	phases []phase
	landed [phases]int
	missed int // the payment was through, or nobody can tell
}

// next is one of the phases that have had the fewest kills.
func (a *aim) next() phase {
	var least []phase
	for _, p := range a.phases {
		if len(least) > 0 && a.landed[p] < a.landed[least[0]] {
			least = nil
		}
		if len(least) == 0 || a.landed[p] == a.landed[least[0]] {
			least = append(least, p)
		}
	}
	return least[a.rng.IntN(len(least))]
}

// open reports whether a phase has had no kill.
func (a *aim) open() bool {
	for _, p := range a.phases {
		if a.landed[p] == 0 {
			return true
		}
	}
	return false
}

func (a *aim) kills() int {
	n := a.missed
	for _, k := range a.landed {
		n += k
	}
	return n
}
