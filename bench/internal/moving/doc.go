// Package moving has ownership move in good order while work goes on, and watches what the work notices of it.
//
// There are two members and as many things to own as Parts. A trial begins with half of them at each. Then one member leaves, so
// that its half moves, and joins again, so that half moves back. Meanwhile each part is worked on all the time:
//
//	by requests  clients send a write for each part, by HTTP, to be done by the owner of that moment (Tenure's router, etcd's Election)
//	by records   a producer appends to each partition, for the owner of that moment to consume (Tenure's consumer, consumer groups)
//
// The gap of a part that moved is the time from the last work that its old owner finished to the first that the new one did. It
// can't be shorter than the time between two pieces of work.
//
// The work is numbered, so that what was lost or done twice on the way can be told.
package moving

import "time"

// Parts is how many things are owned.
const Parts = 8

// Pause is between two pieces of work for one part.
const Pause = 10 * time.Millisecond

// patience bounds all waiting for a move to be over.
const patience = 90 * time.Second

// Result is what one or more trials showed.
type Result struct {
	Left    []time.Duration // gaps of the parts that moved when a member left
	Joined  []time.Duration // likewise when it joined
	Work    int             // requests answered, or records consumed
	Again   int             // requests that were refused and had to be sent again by their client
	Failed  int             // requests that ended in an error, or in nothing for 5 s
	Slowest time.Duration   // request, with what had to be sent again
	Lost    int             // acknowledged and gone; or records that nobody has consumed
	Doubled int             // done more often than was asked for; or records consumed more than once
}

// Add counts another trial in.
func (r *Result) Add(o Result) {
	r.Left = append(r.Left, o.Left...)
	r.Joined = append(r.Joined, o.Joined...)
	r.Work += o.Work
	r.Again += o.Again
	r.Failed += o.Failed
	r.Slowest = max(r.Slowest, o.Slowest)
	r.Lost += o.Lost
	r.Doubled += o.Doubled
}
