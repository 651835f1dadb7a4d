package question

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/zombie"
)

// trials are what a kind went through.
type trials struct {
	kind     zombie.Kind
	outcomes []zombie.Outcome
	err      error // of the last that failed
	failed   int
}

// try runs n trials of each kind, a few kinds at a time.
func try(ctx context.Context, what string, kinds []zombie.Kind, n, together int, told func(string),
	trial func(context.Context, zombie.Kind, string) (zombie.Outcome, error),
) []trials {
	all := make([]trials, len(kinds))
	slots := make(chan struct{}, together)
	var wg sync.WaitGroup
	for i, k := range kinds {
		all[i].kind = k
		wg.Go(func() {
			for round := range n {
				slots <- struct{}{}
				told(fmt.Sprintf("%s: %s, %d of %d", what, k.Name, round+1, n))
				o, err := trial(ctx, k, fmt.Sprintf("%s-%d-%d", what, i, round))
				<-slots
				if err != nil {
					all[i].err = err
					all[i].failed++
					continue
				}
				all[i].outcomes = append(all[i].outcomes, o)
			}
		})
	}
	wg.Wait()
	return all
}

// skip takes those kinds away whose sessions are longer than most, and returns rows that say so.
func skip(kinds []zombie.Kind, longest time.Duration) (rest []zombie.Kind, rows []report.Row) {
	for _, k := range kinds {
		if k.TTL <= longest {
			rest = append(rest, k)
			continue
		}
		row := report.Row{Name: k.Name, Ours: k.Ours, Note: fmt.Sprintf("the shortest session that this broker allows is %s: -full waits for it", k.TTL)}
		row.Say("trials", "not run")
		row.Set("ttl", k.TTL.Seconds())
		row.Say("killed", "not run")
		rows = append(rows, row)
	}
	return rest, rows
}

// Zombie is the table that matters most: what does the resource admit of a holder that was stopped?
func Zombie(ctx context.Context, s *zombie.Stage, kinds []zombie.Kind, longest time.Duration, n int, durability string, told func(string)) *report.Table {
	kinds, skipped := skip(kinds, longest)
	t := &report.Table{
		ID: "zombie", Plot: "stale",
		Question: "A holder is stopped past its TTL, another takes over and writes, the first goes on and sends its write. Is it admitted?",
		Conditions: fmt.Sprintf("%s. Two processes, SIGSTOP and SIGCONT, TTL %s unless a row says otherwise, %s each. The first one's last look at its lock, where it has one, said that all is well.",
			durability, zombie.TTL, plural(n, "trial")),
		Columns: []report.Column{
			{Key: "trials", Name: "trials"},
			{Key: "stale", Name: "stale writes admitted", Safety: true},
			{Key: "blocked", Name: "nobody could work"},
			{Key: "dark", Name: "successor wrote after s"},
			{Key: "told", Name: "the first was told"},
		},
	}
	for _, tr := range try(ctx, "zombie", kinds, n, len(kinds), told, s.Pause) {
		t.Rows = append(t.Rows, pausedRow(tr))
	}
	t.Rows = append(t.Rows, skipped...)
	return t
}

func pausedRow(tr trials) report.Row {
	row := newRow(tr)
	stale, blocked := 0, 0
	var dark []float64
	var says []string
	for _, o := range tr.outcomes {
		if o.Stale {
			stale++
		}
		if o.Blocked {
			blocked++
		} else {
			dark = append(dark, o.Dark.Seconds())
		}
		says = append(says, brief(o.Told))
	}
	if ran := len(tr.outcomes); ran > 0 {
		row.Set("stale", float64(stale))
		row.Say("stale", fmt.Sprintf("%d of %d", stale, ran))
		row.Set("blocked", float64(blocked))
		row.Set("trials", float64(ran))
	} else {
		row.Say("trials", "did not run")
	}
	row.Set("dark", measure.SpreadOf(dark).Median)
	slices.Sort(says)
	row.Say("told", strings.Join(slices.Compact(says), "; "))
	return row
}

func newRow(tr trials) report.Row {
	row := report.Row{Name: tr.kind.Name, Ours: tr.kind.Ours, Misuse: tr.kind.Misuse, Note: tr.kind.Note, FailedTrials: tr.failed}
	if tr.err != nil {
		row.Note = strings.TrimPrefix(row.Note+"; a trial failed: "+tr.err.Error(), "; ")
	}
	return row
}

// brief is the gist of an answer.
func brief(told string) string {
	switch {
	case told == "ok":
		return "ok"
	case strings.HasPrefix(told, "zombie: written"):
		return "ok, then its offset refused"
	case strings.Contains(told, "terminating connection") || strings.Contains(told, "conn closed") || strings.Contains(told, "unexpected EOF"):
		return "refused: session ended"
	case strings.Contains(told, "has been consumed up to"):
		return "refused: position passed"
	case strings.HasPrefix(told, "fence"), strings.Contains(told, "fenced"), strings.Contains(told, "sealed"):
		return "refused: fenced"
	case strings.Contains(told, "conflict"), strings.Contains(told, "version"):
		return "refused: conflict"
	default:
		return "error: " + told[:min(len(told), 40)]
	}
}

// Trials of a killed holder wait, mostly; those of one that leaves are over in moments, and would disturb each other.
const (
	KilledTogether   = 8
	ReleasedTogether = 2
)

// Succession is how long nobody can write when a holder is killed, or gives up in good order.
func Succession(ctx context.Context, s *zombie.Stage, kinds []zombie.Kind, longest time.Duration, n int, durability string, told func(string)) *report.Table {
	kinds, skipped := skip(kinds, longest)
	t := &report.Table{
		ID: "succession", Plot: "killed", Log: true,
		Question: "The holder is killed, or gives up in good order, while another waits: how long until that one has written?",
		Conditions: fmt.Sprintf("%s. Two processes, TTL %s unless a row says otherwise, %s each, a few at a time. Tenure's good order is a whole node that leaves.",
			durability, zombie.TTL, plural(n, "trial")),
		Columns: []report.Column{
			{Key: "ttl", Name: "TTL s"},
			{Key: "killed", Name: "killed: median s"},
			{Key: "killed_max", Name: "max s"},
			{Key: "released", Name: "good order: median ms"},
			{Key: "released_max", Name: "max ms"},
		},
	}
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k zombie.Kind) bool { return !k.Holds() })
	killed := try(ctx, "killed", kinds, n, KilledTogether, told, s.Kill)
	released := try(ctx, "released", kinds, n, ReleasedTogether, told, s.Release)
	for i, tr := range killed {
		if tr.err == nil {
			tr.err = released[i].err
		}
		row := newRow(tr)
		row.Set("ttl", tr.kind.TTL.Seconds())
		spread := func(tr trials, unit time.Duration, key string) {
			var v []float64
			for _, o := range tr.outcomes {
				v = append(v, float64(o.Dark)/float64(unit))
			}
			sp := measure.SpreadOf(v)
			row.Set(key, math.Round(sp.Median*1000)/1000)
			row.Set(key+"_max", sp.Most)
		}
		spread(tr, time.Second, "killed")
		spread(released[i], time.Millisecond, "released")
		t.Rows = append(t.Rows, row)
	}
	t.Rows = append(t.Rows, skipped...)
	return t
}
