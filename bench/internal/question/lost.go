package question

import (
	"context"
	"fmt"
	"strings"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/rival"
)

// Lost counts increments that were acknowledged and are in no balance, of programs that read, decide, and write.
func Lost(ctx context.Context, p Pace, clients int, durability string, misused []measure.Contender, proper []measure.Contender) *report.Table {
	t := &report.Table{
		ID: "lost", Plot: "percent",
		Question: "Each client reads the balance, adds 1 and writes it back. Do the increments add up?",
		Conditions: fmt.Sprintf("%s. %d clients on one account. The first rows are mistakes that are made; the others are meant to be right.",
			durability, clients),
		Columns: []report.Column{
			{Key: "acked", Name: "acknowledged"},
			{Key: "lost", Name: "lost", Safety: true},
			{Key: "percent", Name: "lost, %", Safety: true},
			{Key: "doubled", Name: "doubled", Safety: true},
		},
	}
	all := append(append([]measure.Contender{}, misused...), proper...)
	for i, r := range measure.Run(ctx, measure.Config{
		Clients: clients, Rounds: 1, For: p.For, Pick: measure.One, Told: func(s string) { p.Told("lost: " + s) },
	}, all) {
		row := report.Row{Name: r.Name, Ours: r.Ours, Misuse: i < len(misused), Note: r.Note}
		if r.Err != nil {
			row.Note = strings.TrimPrefix(row.Note+"; first error: "+r.Err.Error(), "; ")
		}
		if len(r.Rates) == 0 {
			row.Say("acked", "did not run")
		} else {
			row.Set("acked", float64(r.Acked))
		}
		if r.Unknown == nil {
			row.Set("lost", float64(r.Lost))
			row.Set("percent", 100*float64(r.Lost)/float64(max(1, r.Acked)))
			row.Set("doubled", float64(r.Doubled))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Pick is the contenders of those names, in their order.
func Pick(on rival.On, names ...string) []measure.Contender {
	var picked []measure.Contender
	for _, name := range names {
		for _, c := range on.Contenders {
			if c.Name == name {
				picked = append(picked, c)
			}
		}
	}
	return picked
}
