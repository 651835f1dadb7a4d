package measure

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter acknowledges each request, and applies it as apply says.
func counter(name string, apply func(n int64) int64) Contender {
	var asked, balance atomic.Int64
	return Contender{Name: name, Open: func(context.Context) (*Instance, error) {
		return &Instance{
			Do: func(context.Context, int, int) error {
				balance.Add(apply(asked.Add(1)))
				return nil
			},
			Sum: func(context.Context) (int64, error) { return balance.Load(), nil },
		}, nil
	}}
}

func run(t *testing.T, cs ...Contender) []Result {
	t.Helper()
	return Run(t.Context(), Config{Clients: 4, Rounds: 2, Warm: time.Millisecond, For: 5 * time.Millisecond, Pick: One}, cs)
}

func TestRun_LostAndDoubledAreCounted(t *testing.T) {
	rs := run(t,
		counter("right", func(int64) int64 { return 1 }),
		counter("loses one", func(n int64) int64 { return min(1, n-1) }),
		counter("doubles one", func(n int64) int64 { return max(1, 3-n) }),
	)
	for i, want := range []struct{ lost, doubled int64 }{{0, 0}, {1, 0}, {0, 1}} {
		r := rs[i]
		if r.Lost != want.lost || r.Doubled != want.doubled || r.Err != nil || len(r.Rates) != 2 || r.Acked == 0 {
			t.Errorf("%s: got %d lost, %d doubled, %v, %d rates, want %+v", r.Name, r.Lost, r.Doubled, r.Err, len(r.Rates), want)
		}
	}
}

// What is answered while a contender warms up is in its balance, and in no rate and no latency.
func TestRun_WarmUpIsNotMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var balance atomic.Int64
		rs := Run(t.Context(), Config{Clients: 1, Rounds: 1, Warm: 100 * time.Millisecond, For: 50 * time.Millisecond, Pick: One}, []Contender{{
			Name: "a millisecond each", Open: func(context.Context) (*Instance, error) {
				return &Instance{
					Do: func(context.Context, int, int) error {
						time.Sleep(time.Millisecond)
						balance.Add(1)
						return nil
					},
					Sum: func(context.Context) (int64, error) { return balance.Load(), nil },
				}, nil
			},
		}})
		if r := rs[0]; r.Acked != 150 || r.Rates[0] != 1000 || r.Hist.TotalCount() != 50 || r.Lost != 0 || r.Doubled != 0 {
			t.Errorf("got %d acknowledged, %g a second, %d latencies, %d lost, want 150, 1000, 50, 0", r.Acked, r.Rates[0], r.Hist.TotalCount(), r.Lost)
		}
	})
}

// A request that failed may have been applied or not: neither is a fault.
func TestRun_ErrorsAreUncertain(t *testing.T) {
	boom := errors.New("boom")
	for _, applied := range []int64{0, 1} {
		var balance atomic.Int64
		rs := run(t, Contender{Name: "fails", Open: func(context.Context) (*Instance, error) {
			return &Instance{
				Do:  func(context.Context, int, int) error { balance.Add(applied); return boom },
				Sum: func(context.Context) (int64, error) { return balance.Load(), nil },
			}, nil
		}})
		if r := rs[0]; r.Lost != 0 || r.Doubled != 0 || r.Failed == 0 || !errors.Is(r.Err, boom) {
			t.Errorf("applied %d: got %d lost, %d doubled, %d failed, %v", applied, r.Lost, r.Doubled, r.Failed, r.Err)
		}
	}
}

func TestRun_OneThatDoesNotOpenIsLeftOut(t *testing.T) {
	boom := errors.New("boom")
	rs := run(t, Contender{Name: "broken", Open: func(context.Context) (*Instance, error) { return nil, boom }}, counter("right", func(int64) int64 { return 1 }))
	if !errors.Is(rs[0].Err, boom) || len(rs[0].Rates) != 0 || len(rs[1].Rates) != 2 {
		t.Errorf("got %v and %d rates, %d rates of the other", rs[0].Err, len(rs[0].Rates), len(rs[1].Rates))
	}
}

func TestZipf_FollowsItsLaw(t *testing.T) {
	const n, draws = 100, 200_000
	pick, random := Zipf(0.99, n), rand.New(rand.NewPCG(1, 2))
	var seen [n]float64
	for range draws {
		seen[pick(random)]++
	}
	sum := 0.0
	for i := range n {
		sum += math.Pow(float64(i+1), -0.99)
	}
	for _, i := range []int{0, 1, 9, 99} {
		want := draws * math.Pow(float64(i+1), -0.99) / sum
		if math.Abs(seen[i]-want) > 6*math.Sqrt(want) {
			t.Errorf("account %d: drawn %g times, want about %g", i, seen[i], want)
		}
	}
}

func TestRatio_IsTakenRoundByRound(t *testing.T) {
	a, b := Result{Rates: []float64{10, 40, 30}}, Result{Rates: []float64{10, 10, 10}}
	if got, want := a.Ratio(b), (Spread{3, 1, 4}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := a.Ratio(Result{}).Median; !math.IsNaN(got) {
		t.Errorf("of nothing: got %g, want NaN", got)
	}
}
