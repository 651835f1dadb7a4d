package question

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/moving"
	"github.com/tenure-go/tenure/bench/internal/report"
)

// MovingRequests is what requests notice of a hand-over.
func MovingRequests(ctx context.Context, q *moving.Requests, n int, told func(string)) *report.Table {
	t := &report.Table{
		ID: "moving", Plot: "left_max",
		Question: "A member leaves in good order, and joins again, while requests come in: how long does a key rest, and which requests fail?",
		Conditions: fmt.Sprintf("Counters in etcd, every commit synced to disk, guarded by the owner's key. Two members in one process, each with a client and an HTTP server of its own, %d keys of which half moves and comes back, %s. "+
			"Two clients for each key, a request every %s. A key rests from the last answer of one owner to the first of the next.", moving.Parts, plural(n, "trial"), moving.Pause),
		Columns: []report.Column{
			{Key: "moved", Name: "moved"},
			{Key: "left", Name: "left: p50 ms"},
			{Key: "left_max", Name: "left: max ms"},
			{Key: "joined", Name: "joined: p50 ms"},
			{Key: "joined_max", Name: "joined: max ms"},
			{Key: "work", Name: "requests"},
			{Key: "failed", Name: "failed"},
			{Key: "again", Name: "refused, sent again"},
			{Key: "slowest", Name: "slowest ms"},
			{Key: "lost", Name: "lost", Safety: true},
			{Key: "doubled", Name: "doubled", Safety: true},
		},
	}
	contenders := moving.Contenders()
	results, errs := rotate(len(contenders), n, func(i, round int) (moving.Result, error) {
		told(fmt.Sprintf("moving: %s, %d of %d", contenders[i].Name, round+1, n))
		return q.Try(ctx, contenders[i], fmt.Sprintf("%d-%d", i, round))
	})
	for i, c := range contenders {
		t.Rows = append(t.Rows, movedRow(report.Row{Name: c.Name, Ours: c.Ours, Note: c.Note}, results[i], errs[i]))
	}
	return t
}

// MovingRecords is what those notice of a hand-over who wait for records to be consumed.
func MovingRecords(ctx context.Context, q *moving.Records, consumers []moving.Consumer, slow bool, n int, told func(string)) *report.Table {
	t := &report.Table{
		ID: "moving-records", Plot: "left_max", Log: true,
		Question: "A member leaves in good order, and joins again, while records are consumed: how long does a partition rest, and is each consumed once?",
		Conditions: fmt.Sprintf("%s. Two members in one process, each with a client of its own, %d partitions of which half moves and comes back, %s. A record to each partition every %s. "+
			"Groups commit to the broker after each poll, let nothing be rebalanced in between, and are left at a random moment between two heartbeats. "+
			"A partition rests from the last commit of one owner to the first of the next.", q.Broker.Name(), moving.Parts, plural(n, "trial"), moving.Pause),
		Columns: []report.Column{
			{Key: "moved", Name: "moved"},
			{Key: "left", Name: "left: p50 ms"},
			{Key: "left_max", Name: "left: max ms"},
			{Key: "joined", Name: "joined: p50 ms"},
			{Key: "joined_max", Name: "joined: max ms"},
			{Key: "work", Name: "records"},
			{Key: "lost", Name: "lost", Safety: true},
			{Key: "doubled", Name: "doubled", Safety: true},
		},
	}
	var in []moving.Consumer
	for _, c := range consumers {
		if slow || !c.Slow {
			in = append(in, c)
		}
	}
	results, errs := rotate(len(in), n, func(i, round int) (moving.Result, error) {
		told(fmt.Sprintf("moving-records: %s, %d of %d", in[i].Name, round+1, n))
		return q.Try(ctx, in[i], fmt.Sprintf("%d-%d", i, round))
	})
	for _, c := range consumers {
		row := report.Row{Name: c.Name, Ours: c.Ours, Note: c.Note}
		if i := slices.IndexFunc(in, func(ran moving.Consumer) bool { return ran.Name == c.Name }); i >= 0 {
			row = movedRow(row, results[i], errs[i])
		} else {
			row.Note += ": that takes long, and -full does it"
			row.Say("moved", "not run")
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// rotate gives each of m contenders n trials, in an order that rotates. Of a trial that failed only the harm counts, and its error: what never
// comes to an end may be what was lost.
func rotate(m, n int, trial func(i, round int) (moving.Result, error)) ([]moving.Result, [][]error) {
	results, errs := make([]moving.Result, m), make([][]error, m)
	for round := range n {
		for turn := range m {
			i := (turn + round) % m
			r, err := trial(i, round)
			if err != nil {
				errs[i] = append(errs[i], err)
				r = moving.Result{Lost: r.Lost, Doubled: r.Doubled}
			}
			results[i].Add(r)
		}
	}
	return results, errs
}

func movedRow(row report.Row, r moving.Result, errs []error) report.Row {
	if row.FailedTrials = len(errs); row.FailedTrials > 0 {
		row.Note += fmt.Sprintf("; %s failed, the last one: %v", plural(row.FailedTrials, "trial"), errs[len(errs)-1])
	}
	if len(r.Left) == 0 {
		row.Say("moved", "did not run")
		return row
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	row.Set("moved", float64(len(r.Left)+len(r.Joined)))
	for key, gaps := range map[string][]time.Duration{"left": r.Left, "joined": r.Joined} {
		var v []float64
		for _, g := range gaps {
			v = append(v, ms(g))
		}
		spread := measure.SpreadOf(v)
		row.Set(key, spread.Median)
		row.Set(key+"_max", spread.Most)
	}
	row.Set("work", float64(r.Work))
	row.Set("failed", float64(r.Failed))
	row.Set("again", float64(r.Again))
	row.Set("slowest", ms(r.Slowest))
	row.Set("lost", float64(r.Lost))
	row.Set("doubled", float64(r.Doubled))
	return row
}
