// Package measure sets contenders to the same work, and counts.
//
// Each contender adds 1 to accounts for a number of clients, each of which sends its next request when it has the
// reply to the last (a closed loop). Rounds rotate the order, since a machine's speed drifts, and ratios are taken
// between rounds of the same number. In the end the sum of what is stored is held against what was acknowledged.
package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Contender is one way to do the work.
type Contender struct {
	Name string
	Ours bool
	Note string // how it was set up, where that is a choice
	Open func(context.Context) (*Instance, error)
}

// Instance is an opened contender. Do adds 1 to an account, and returns when that is as durable as the table says. Sum is
// what all accounts hold. Close may be nil.
type Instance struct {
	Do    func(ctx context.Context, client, account int) error
	Sum   func(context.Context) (int64, error)
	Close func()
}

// Config says how much work of which kind.
type Config struct {
	Clients int
	Rounds  int
	Warm    time.Duration        // at the start of each turn, not measured
	For     time.Duration        // one contender's turn in a round
	Pick    func(*rand.Rand) int // the account of a request
	Told    func(string)         // progress; may be nil
}

// Result is what one contender did in all rounds.
type Result struct {
	Name    string
	Ours    bool
	Note    string
	Rates   []float64               // requests per second, by round
	Hist    *hdrhistogram.Histogram // of latencies, in microseconds
	Acked   int64                   // warm-up included
	Failed  int64                   // requests that ended in an error, and may have been applied or not
	Silent  int64                   // requests that have no answer, since their process was killed
	Lost    int64                   // acknowledged and in no balance
	Doubled int64                   // in the balances, and more than were asked for
	Stall   time.Duration           // the longest time in which nobody had a reply
	Err     error                   // the first error of a request, or why it could not take part
	Unknown error                   // why Lost and Doubled are not known: the sums could not be had. nil: they are
}

type entrant struct {
	*Result
	*Instance
	before int64
}

// Run gives each contender its turns. One that can't be opened has a Result with Err and no rates. Contenders are closed
// when Run returns.
func Run(ctx context.Context, c Config, cs []Contender) []Result {
	results := make([]Result, len(cs))
	var in []*entrant
	for i, contender := range cs {
		r := &results[i]
		r.Name, r.Ours, r.Note = contender.Name, contender.Ours, contender.Note
		r.Hist = hdrhistogram.New(1, time.Minute.Microseconds(), 3)
		c.told("opening " + contender.Name)
		e, err := enter(ctx, contender, r)
		if err != nil {
			r.Err, r.Unknown = err, err
			continue
		}
		if e.Close != nil {
			defer e.Close()
		}
		in = append(in, e)
	}
	for round := range c.Rounds {
		for turn := range in {
			if ctx.Err() != nil {
				break
			}
			e := in[(turn+round)%len(in)]
			c.told(fmt.Sprintf("round %d of %d: %s", round+1, c.Rounds, e.Name))
			e.Rates = append(e.Rates, c.turn(ctx, e))
		}
	}
	for _, e := range in {
		e.audit(ctx)
	}
	return results
}

func enter(ctx context.Context, c Contender, r *Result) (*entrant, error) {
	instance, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	before, err := instance.Sum(ctx)
	if err != nil {
		if instance.Close != nil {
			instance.Close()
		}
		return nil, err
	}
	return &entrant{Result: r, Instance: instance, before: before}, nil
}

func (c Config) told(what string) {
	if c.Told != nil {
		c.Told(what)
	}
}

// grace is how long a request that is under way at the end of a turn may take.
const grace = 10 * time.Second

// turn runs all clients for Warm and For, lets them finish what they have begun, and returns the rate of what was answered after
// Warm. Clients are not stopped between the two: those that wait for a lock would have to queue again.
func (c Config) turn(ctx context.Context, e *entrant) float64 {
	ctx, cancel := context.WithTimeout(ctx, c.Warm+c.For+grace)
	defer cancel()
	var (
		wg      sync.WaitGroup
		failed  atomic.Int64
		counted atomic.Int64 // replies after Warm
		last    atomic.Int64 // reply, in nanoseconds since warm
		stall   atomic.Int64
		once    sync.Once
		hists   = make([]*hdrhistogram.Histogram, c.Clients)
		acked   = make([]int64, c.Clients)
		begun   = time.Now()
		warm    = begun.Add(c.Warm)
		end     = warm.Add(c.For)
	)
	for client := range c.Clients {
		hists[client] = hdrhistogram.New(1, time.Minute.Microseconds(), 3)
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), uint64(begun.UnixNano())))
			var mine int64
			for now := time.Now(); now.Before(end) && ctx.Err() == nil; {
				err := e.Do(ctx, client, c.Pick(random))
				then := time.Now()
				if err != nil {
					failed.Add(1)
					once.Do(func() { e.fault(err) })
				} else {
					acked[client]++
				}
				if then.After(warm) {
					if err == nil {
						mine++
					}
					since := then.Sub(warm).Nanoseconds()
					if gap := since - last.Swap(since); gap > stall.Load() {
						stall.Store(gap) // two at once may store the smaller of two long ones
					}
					_ = hists[client].RecordValue(max(1, then.Sub(now).Microseconds())) // a minute is above grace
				}
				now = then
			}
			counted.Add(mine)
		})
	}
	wg.Wait()
	took := time.Since(warm)
	e.Stall = max(e.Stall, time.Duration(stall.Load()))
	for client, n := range acked {
		e.Acked += n
		e.Hist.Merge(hists[client])
	}
	e.Failed += failed.Load()
	if took <= 0 { // ctx has ended in the warm-up
		return 0
	}
	return float64(counted.Load()) / took.Seconds()
}

func (e *entrant) fault(err error) {
	if e.Err == nil {
		e.Err = err
	}
}

func (e *entrant) audit(ctx context.Context) {
	after, err := e.Sum(ctx)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		e.fault(err)
		e.Unknown = err
		return
	}
	applied := after - e.before
	e.Lost = max(0, e.Acked-applied)
	e.Doubled = max(0, applied-e.Acked-e.Failed)
}
