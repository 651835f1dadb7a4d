package compare

import (
	"context"
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

// Run takes turns in rotated order, and prints rate, p50, p99, lost, doubled and the longest stall to w. Its error says what
// of the arguments is wrong, or why it had to stop; what a contender's Do returns is counted, and the first error printed.
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
	if err != nil {
		return err
	}
	report.WriteTable(w, c.table(results))
	return ctx.Err()
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
			{Key: "lost", Name: "lost"},
			{Key: "doubled", Name: "doubled"},
			{Key: "stall", Name: "longest stall ms"},
			{Key: "failed", Name: "errors"},
		},
	}
	if c.Faults {
		t.Conditions = "Three processes each; in every turn one of them is paused, and one killed."
	} else {
		t.Conditions = "One process, no faults."
	}
	for _, r := range rs {
		row := report.Row{Name: r.Name}
		row.Set("rate", measure.SpreadOf(r.Rates).Median)
		row.Set("ratio", r.Ratio(rs[0]).Median)
		row.Set("p50", float64(r.Hist.ValueAtPercentile(50))/1000)
		row.Set("p99", float64(r.Hist.ValueAtPercentile(99))/1000)
		row.Set("lost", float64(r.Lost))
		row.Set("doubled", float64(r.Doubled))
		row.Set("stall", float64(r.Stall.Milliseconds()))
		row.Set("failed", float64(r.Failed))
		t.Rows = append(t.Rows, row)
		if r.Err != nil {
			t.Conditions += fmt.Sprintf("\n  %s: first error: %v", r.Name, r.Err)
		}
	}
	return t
}
