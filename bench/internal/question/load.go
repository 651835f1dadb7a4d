// Package question turns what was measured into tables: one for each thing that somebody who chooses would ask.
package question

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/rival"
)

// Pace is how long and how often.
type Pace struct {
	Rounds int
	Warm   time.Duration
	For    time.Duration
	Told   func(string)
}

// Load is a question about rates: who adds how much in a closed loop.
type Load struct {
	ID, Question string
	Work         rival.Work
	Skew         float64 // Zipf's s over the accounts; of one account it is of no matter
	Durability   string
	Base         string // the contender that others are compared with
}

// Ask lets the contenders of on answer l. The results come with the table, for ratios of one's own.
func (l Load) Ask(ctx context.Context, p Pace, on rival.On) (*report.Table, []measure.Result) {
	pick := measure.One
	if l.Work.Accounts > 1 {
		pick = measure.Zipf(l.Skew, l.Work.Accounts)
	}
	results := measure.Run(ctx, measure.Config{
		Clients: l.Work.Clients, Rounds: p.Rounds, Warm: p.Warm, For: p.For, Pick: pick,
		Told: func(s string) { p.Told(l.ID + ": " + s) },
	}, on.Contenders)
	clients := fmt.Sprintf("%d clients, each waiting for its reply", l.Work.Clients)
	if l.Work.Clients == 1 {
		clients = "One client"
	}
	t := &report.Table{
		ID: l.ID, Question: l.Question, Plot: "rate", Log: true,
		Conditions: fmt.Sprintf("%s. %s. Tenure: one node, %s. %d rounds of %s in rotated order after %s of warm-up each.",
			l.Durability, clients, plural(l.Work.Shards, "shard"), p.Rounds, p.For, p.Warm),
		Columns: []report.Column{
			{Key: "rate", Name: "requests/s"},
			{Key: "ratio", Name: "× " + l.Base},
			{Key: "p50", Name: "p50 ms"},
			{Key: "p99", Name: "p99 ms"},
			{Key: "p999", Name: "p99.9 ms"},
			{Key: "max", Name: "max ms"},
			{Key: "lost", Name: "lost", Safety: true},
			{Key: "doubled", Name: "doubled", Safety: true},
			{Key: "failed", Name: "errors"},
		},
	}
	base := Find(results, l.Base)
	for _, r := range results {
		t.Rows = append(t.Rows, loadRow(r, base))
	}
	return t, results
}

func loadRow(r, base measure.Result) report.Row {
	row := report.Row{Name: r.Name, Ours: r.Ours, Note: r.Note}
	if r.Err != nil {
		row.Note = strings.TrimPrefix(row.Note+"; first error: "+r.Err.Error(), "; ")
	}
	if len(r.Rates) == 0 {
		row.Say("rate", "did not run")
		return row
	}
	rate, ratio := measure.SpreadOf(r.Rates), r.Ratio(base)
	row.Set("rate", rate.Median)
	row.Set("rate_least", rate.Least)
	row.Set("rate_most", rate.Most)
	row.Set("ratio", ratio.Median)
	row.Set("ratio_least", ratio.Least)
	row.Set("ratio_most", ratio.Most)
	row.Say("ratio", spreadText(ratio))
	for key, quantile := range map[string]float64{"p50": 50, "p99": 99, "p999": 99.9, "max": 100} {
		row.Set(key, float64(r.Hist.ValueAtPercentile(quantile))/1000)
	}
	if r.Unknown == nil {
		row.Set("lost", float64(r.Lost))
		row.Set("doubled", float64(r.Doubled))
	}
	row.Set("failed", float64(r.Failed))
	return row
}

func spreadText(s measure.Spread) string {
	if s.Least == s.Most {
		return report.Number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", report.Number(s.Median), report.Number(s.Least), report.Number(s.Most))
}

func plural(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Find is the result of that name, or one without rates.
func Find(rs []measure.Result, name string) measure.Result {
	for _, r := range rs {
		if r.Name == name {
			return r
		}
	}
	return measure.Result{}
}

// Bar is a ratio that the project has set itself.
type Bar struct {
	Over, Under string
	Want        float64
}

// Bars is a table of ratios, round by round, beside what was wanted.
func Bars(id, question, conditions string, rs []measure.Result, bars []Bar) *report.Table {
	t := &report.Table{
		ID: id, Question: question, Conditions: conditions,
		Columns: []report.Column{{Key: "want", Name: "wanted"}, {Key: "ratio", Name: "median"}, {Key: "least", Name: "least"}, {Key: "most", Name: "most"}, {Key: "met", Name: ""}},
	}
	for _, b := range bars {
		s := Find(rs, b.Over).Ratio(Find(rs, b.Under))
		if s.Median != s.Median { // one of them was not there
			continue
		}
		row := report.Row{Name: b.Over + " / " + b.Under, Ours: true}
		row.Set("want", b.Want)
		row.Set("ratio", s.Median)
		row.Set("least", s.Least)
		row.Set("most", s.Most)
		row.Say("met", map[bool]string{true: "met", false: "MISSED"}[s.Median >= b.Want])
		t.Rows = append(t.Rows, row)
	}
	return t
}
