package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"
)

// report prints what happens, each line with the time since the start.
type report struct {
	mu    sync.Mutex // one line at a time
	w     io.Writer
	start time.Time
}

func newReport(w io.Writer) *report { return &report{w: w, start: time.Now()} }

func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.w, "%5.1fs  %s\n", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// plain prints lines without the time.
func (r *report) plain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.w, format, args...)
}

// at is the time of t on the report's clock, for people.
func (r *report) at(t time.Time) string { return fmt.Sprintf("%.1fs", t.Sub(r.start).Seconds()) }

// summary is what -json prints.
type summary struct {
	Nodes          int     `json:"nodes"` // processes that served, at one time or another
	Shards         int     `json:"shards"`
	Acknowledged   int     `json:"acknowledged"`          // operations that clients were told are done
	Lost           int     `json:"lost"`                  // of those, how many no balance holds
	AppliedTwice   int     `json:"applied_twice"`         // operations that a balance holds more than once
	StaleAttempted int     `json:"stale_attempted"`       // statements under an epoch that was over, and that reached the database
	StaleRefused   int     `json:"stale_refused"`         // of those, how many the fence refused
	FailedCalm     int     `json:"failed_graceful"`       // requests that did not succeed while a node joined or left
	Gap            spread  `json:"handoff_gap_ms"`        // no write to a shard that was handed over; see gaps
	CrashServed    float64 `json:"crash_to_served_ms"`    // from the kill to the first write on the last of the dead node's shards
	CrashExpired   float64 `json:"crash_after_expiry_ms"` // the same, from when the parent saw the dead member's key go
}

// spread is how a set of durations is spread, in milliseconds.
type spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(d []time.Duration) spread {
	if len(d) == 0 {
		return spread{}
	}
	d = slices.Sorted(slices.Values(d))
	// Nearest rank: the least value that was measured and that so many are at or below.
	rank := func(part float64) float64 { return millis(d[max(1, int(math.Ceil(part*float64(len(d)))))-1]) }
	return spread{P50: rank(0.50), P99: rank(0.99), Max: rank(1)}
}

// millis rounds to hundredths.
func millis(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Millisecond)*100) / 100
}

// verdict prints the summary for people and returns the exit status.
func (s *story) verdict(sum summary) int {
	a, r := s.audit, s.report
	r.plain("\n")
	r.plain("  acknowledged operations   %d, by %d nodes for %d shards\n", sum.Acknowledged, sum.Nodes, sum.Shards)
	r.plain("  lost                      %d\n", sum.Lost)
	r.plain("  applied twice             %d\n", sum.AppliedTwice)
	r.plain("  money                     %d in the accounts, %d by what clients were told\n", a.money, s.owed())
	r.plain("  sent again by clients     %d, of which %d might have been applied the first time\n", s.ledger.tries, s.ledger.unsure)
	r.plain("  stale statements          %d reached the database, %d refused\n", sum.StaleAttempted, sum.StaleRefused)
	r.plain("  failed in join and leave  %d requests, while one node joined and one left\n", sum.FailedCalm)
	r.plain("  hand-off, seen by clients %.1f ms (p50), %.1f ms (p99), %.1f ms (max)\n", sum.Gap.P50, sum.Gap.P99, sum.Gap.Max)
	if floor := millis(s.floor); floor > 0 {
		r.plain("  the floor                 %.1f ms: two commits and two watch deliveries; p50 is %.1f times that, p99 %.1f times\n",
			floor, sum.Gap.P50/floor, sum.Gap.P99/floor)
		r.plain("                            (to drain, to seal and to write first it also waits its turns at the one SQLite file)\n")
	}
	r.plain("  after the crash           all served %.0f ms after the kill, %.1f ms after the lease's end\n\n", sum.CrashServed, sum.CrashExpired)

	wrong := s.wrong(sum)
	for _, w := range wrong {
		r.plain("WRONG: %s\n", w)
	}
	damaged := sum.Lost > 0 || sum.AppliedTwice > 0
	switch {
	case s.noFence && !damaged && canPause:
		fmt.Fprintln(s.stderr, "quickstart: no damage without the fence: this run shows nothing, try again")
		return exitControl
	case s.noFence && damaged:
		r.plain("That is what the fence is for. (The exit status is 1, on purpose.)\n")
		return exitWrong
	case len(wrong) > 0:
		return exitWrong
	}
	r.plain("GOOD: every acknowledged operation is there, once.\n")
	return exitGood
}

// owed is how much money there must be.
func (s *story) owed() int64 {
	return int64(len(s.accounts.all()))*opening + s.audit.deposited
}

// wrong is everything that must not be.
func (s *story) wrong(sum summary) []string {
	var all []string
	bad := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	bad(sum.Lost > 0, "%d acknowledged operations are in no balance", sum.Lost)
	bad(sum.AppliedTwice > 0, "%d operations are in a balance twice", sum.AppliedTwice)
	bad(s.audit.money != s.owed(), "there are %d in the accounts, and there must be %d", s.audit.money, s.owed())
	bad(s.audit.stale > 0, "%d writes landed under an epoch that was over", s.audit.stale)
	all = append(all, s.audit.faults...)
	bad(canPause && sum.StaleAttempted == 0, "no stale write reached the database, so nothing was shown")
	bad(sum.StaleRefused < sum.StaleAttempted, "%d of %d stale statements were not refused by the fence",
		sum.StaleAttempted-sum.StaleRefused, sum.StaleAttempted)
	bad(sum.FailedCalm > 0, "%d requests failed while a node joined or left; the last: %v", sum.FailedCalm, s.ledger.last)
	bad(sum.Gap == spread{}, "no hand-off was measured")
	return all
}
