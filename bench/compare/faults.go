package compare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tenure-go/tenure/bench/internal/measure"
)

// tally is what became of a contender in all of its turns.
type tally struct {
	measure.Result
	sum    func(context.Context) (int64, error)
	before int64
	began  int64
}

// underFaults is measure, in processes that are paused and killed. With an error there may be results of what was done until then.
func (c Config) underFaults(ctx context.Context, cs []Contender) ([]measure.Result, error) {
	all := make([]*tally, len(cs))
	for i, contender := range cs {
		all[i] = &tally{sum: contender.Sum}
		all[i].Name, all[i].Hist = contender.Name, hdrhistogram.New(1, time.Minute.Microseconds(), 3)
		var err error
		if all[i].before, err = contender.Sum(ctx); err != nil {
			return nil, fmt.Errorf("compare: %s: sum: %w", contender.Name, err)
		}
	}
	stopped := c.turns(ctx, all)
	results := make([]measure.Result, len(cs))
	for i, t := range all {
		t.audit(ctx, stopped)
		results[i] = t.Result
	}
	if stopped != nil {
		stopped = fmt.Errorf("compare: stopped early: %w", stopped)
	}
	return results, stopped
}

func (c Config) turns(ctx context.Context, all []*tally) error {
	for round := range turns {
		for turn := range all {
			i := (turn + round) % len(all)
			team := &crew{contender: i, clients: max(1, c.Clients/processes), hist: all[i].Hist}
			err := team.turn(ctx, c.For/turns)
			all[i].add(team, c.For/turns)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tally) add(team *crew, d time.Duration) {
	t.Rates = append(t.Rates, float64(team.acked)/d.Seconds())
	t.Acked += team.acked
	t.Failed += team.failed
	t.Silent += team.began - team.acked - team.failed
	t.Stall = max(t.Stall, team.stall)
	t.began += team.began
	if t.Err == nil {
		t.Err = errors.Join(append([]error{team.first}, team.troubles...)...)
	}
}

func (t *tally) audit(ctx context.Context, stopped error) {
	if stopped != nil {
		t.Unknown = stopped
		return
	}
	after, err := t.sum(ctx)
	if err != nil {
		t.Unknown = err
		return
	}
	applied := after - t.before
	t.Lost = max(0, t.Acked-applied)
	t.Doubled = max(0, applied-t.began) // what had begun and has no answer may be there
}
