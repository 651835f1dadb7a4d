package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/report"
)

// turns is how many each contender has.
const turns = 4

// Run takes turns in rotated order, and prints rate, p50, p99, acknowledged, lost, doubled and the longest stall to w. Its error says
// what of the arguments is wrong, or why it had to stop; what a contender's Do returns is counted, and the first error printed. A
// contender whose Sum failed, or that had to stop before, has – for lost and doubled, and Run returns the error besides.
// On return nothing of Run's own is left running.
func Run(ctx context.Context, w io.Writer, c Config, cs ...Contender) error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	if err := check(cs); err != nil {
		return err
	}
	if order := os.Getenv(worker); order != "" {
		return work(ctx, c, cs, order)
	}
	results, err := c.measure(ctx, cs)
	if results == nil {
		return err
	}
	report.WriteTable(w, c.table(results))
	faults := []error{err}
	for _, r := range results {
		if r.Unknown != nil && err == nil && ctx.Err() == nil {
			faults = append(faults, fmt.Errorf("compare: %s: sum: %w", r.Name, r.Unknown))
		}
	}
	if err == nil && ctx.Err() != nil {
		faults = append(faults, fmt.Errorf("compare: stopped early: %w", ctx.Err()))
	}
	return errors.Join(faults...)
}

func (c Config) measure(ctx context.Context, cs []Contender) ([]measure.Result, error) {
	if c.Faults {
		return c.underFaults(ctx, cs)
	}
	var contenders []measure.Contender
	for _, contender := range cs {
		do := c.doer(contender)
		contenders = append(contenders, measure.Contender{Name: contender.Name, Open: func(context.Context) (*measure.Instance, error) {
			return &measure.Instance{
				Do:  func(ctx context.Context, _, account int) error { return do(ctx, account) },
				Sum: contender.Sum,
			}, nil
		}})
	}
	return measure.Run(ctx, measure.Config{
		Clients: c.Clients, Rounds: turns, Warm: min(c.For/turns/4, time.Second), For: c.For / turns,
		Pick: measure.Zipf(c.Skew, c.Accounts),
	}, contenders), nil
}

// doer adds 1 to the account of a number.
func (c Config) doer(contender Contender) func(context.Context, int) error {
	return func(ctx context.Context, account int) error {
		return contender.Do(ctx, "account-"+strconv.Itoa(account), 1)
	}
}

func (c Config) table(rs []measure.Result) *report.Table {
	t := &report.Table{
		Question: fmt.Sprintf("%d clients, %d accounts, skew %g, %s each", c.Clients, c.Accounts, c.Skew, c.For),
		Columns: []report.Column{
			{Key: "rate", Name: "requests/s"},
			{Key: "ratio", Name: "× " + rs[0].Name},
			{Key: "p50", Name: "p50 ms"},
			{Key: "p99", Name: "p99 ms"},
			{Key: "acked", Name: "acknowledged"},
			{Key: "lost", Name: "lost"},
			{Key: "doubled", Name: "doubled"},
			{Key: "stall", Name: "longest stall ms"},
			{Key: "failed", Name: "errors"},
		},
	}
	if c.Faults {
		t.Columns = append(t.Columns, report.Column{Key: "uncertain", Name: "killed under way"})
		t.Conditions = "Three processes each; in every turn one of them is paused, and one killed. What that had under way may have been applied or not."
	} else {
		t.Conditions = "One process, no faults."
	}
	for _, r := range rs {
		row := report.Row{Name: r.Name}
		row.Set("rate", measure.SpreadOf(r.Rates).Median)
		row.Set("ratio", r.Ratio(rs[0]).Median)
		row.Set("p50", float64(r.Hist.ValueAtPercentile(50))/1000)
		row.Set("p99", float64(r.Hist.ValueAtPercentile(99))/1000)
		row.Set("acked", float64(r.Acked))
		if r.Unknown == nil {
			row.Set("lost", float64(r.Lost))
			row.Set("doubled", float64(r.Doubled))
		}
		row.Set("stall", float64(r.Stall.Milliseconds()))
		row.Set("failed", float64(r.Failed))
		row.Set("uncertain", float64(r.Silent))
		t.Rows = append(t.Rows, row)
		if r.Err != nil {
			t.Conditions += fmt.Sprintf("\n  %s: first error: %v", r.Name, r.Err)
		}
	}
	return t
}
