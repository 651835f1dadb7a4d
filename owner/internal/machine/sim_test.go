package machine

import (
	"flag"
	"fmt"
	"math/bits"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	simSeed = flag.Uint64("sim.seed", 0, "replay this one schedule, with its trace")
	simFrom = flag.Uint64("sim.from", 1, "first seed")
	simRuns = flag.Int("sim.runs", 0, "how many schedules; 0: what fits into an ordinary test run")
	simTail = flag.Int("sim.tail", 400, "lines of a failed schedule's trace that are printed")
)

// size is a kind of schedule.
type size struct {
	name   string // of its test
	shards func(seed uint64) int
	run    func(*world)
	runs   int      // in an ordinary test run
	sees   []string // what three thousand schedules have to have come to: a fault that never happens proves nothing
}

// play runs a schedule, and returns what it violated.
func (z size) play(seed uint64, tracing bool) (w *world, broken string) {
	return play(seed, z.shards(seed), tracing, z.run)
}

// play runs a schedule, and returns what it violated.
func play(seed uint64, shards int, tracing bool, run func(*world)) (w *world, broken string) {
	w = newWorld(seed, shards)
	w.tracing = tracing
	defer func() {
		switch p := recover().(type) {
		case nil:
		case violation:
			broken = p.text
		default:
			broken = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	run(w)
	return w, ""
}

func report(t *testing.T, name string, seed uint64, shards int, run func(*world)) {
	t.Helper()
	w, broken := play(seed, shards, true, run)
	lines := w.lines[max(0, len(w.lines)-*simTail):]
	t.Errorf("seed %d: %s\n%s\nseed %d: %s\nreplay: go test ./owner/internal/machine -run '^%s$' -sim.seed=%d",
		seed, broken, strings.Join(lines, "\n"), seed, broken, name, seed)
}

// tally is what many schedules came to.
type tally struct {
	mu      sync.Mutex // guards the rest
	next    int
	steps   int
	virtual time.Duration
	slowest time.Duration // from the last fault to I9
	of      uint64        // that seed's
	failed  []uint64
	count   map[string]int
}

// draw is the next schedule's number; false once there are enough, or enough have failed.
func (y *tally) draw(runs int) (int, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.next >= runs || len(y.failed) >= 3 {
		return 0, false
	}
	y.next++
	return y.next - 1, true
}

func (y *tally) add(seed uint64, w *world, broken string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.steps += w.steps
	y.virtual += w.now
	if w.took > y.slowest {
		y.slowest, y.of = w.took, seed
	}
	for k, n := range w.checks.count {
		y.count[k] += n
	}
	if bits.OnesCount64(w.acted&^(1<<actForeign|1<<actRejoin)) >= 3 {
		y.count[threeKinds]++
	}
	if broken != "" {
		y.failed = append(y.failed, seed)
	}
}

const threeKinds = "schedules with three kinds of acts or more"

func (y *tally) String() string {
	return fmt.Sprintf("%d schedules, %d steps, %.0f h of cluster life; slowest to settle: %v (seed %d)",
		y.next, y.steps, y.virtual.Hours(), y.slowest.Round(time.Millisecond), y.of)
}

// test plays as many schedules as the flags say, on all processors.
func (z size) test(t *testing.T) {
	if *simSeed != 0 {
		w, broken := z.play(*simSeed, true)
		t.Log(strings.Join(w.lines, "\n"))
		t.Logf("digest %x after %d steps", w.hash, w.steps)
		if broken != "" {
			t.Fatal(broken)
		}
		return
	}
	runs := *simRuns
	if runs == 0 {
		runs = z.runs
		if testing.Short() {
			runs /= 10
		}
	}
	if runs == 0 {
		t.Skip("too many steps for the race detector, or -short; ask for them with -sim.runs")
	}
	y := tally{count: make(map[string]int)}
	began := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i, more := y.draw(runs); more; i, more = y.draw(runs) {
				seed := *simFrom + uint64(i)
				w, broken := z.play(seed, false)
				y.add(seed, w, broken)
				if broken != "" {
					t.Logf("seed %d: %s", seed, broken)
				}
				if every := max(1000, runs/50); (i+1)%every == 0 {
					t.Logf("%d of %d after %v", i+1, runs, time.Since(began).Round(time.Second))
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	t.Logf("%v; in %v: %.0f schedules/s, %.0f steps/s", &y, took.Round(time.Millisecond),
		float64(y.next)/took.Seconds(), float64(y.steps)/took.Seconds())
	if testing.Verbose() {
		logCounts(t, y.count)
	}
	for _, what := range z.sees {
		// The ordinary schedules, or so many that it is no accident.
		if (*simFrom == 1 && y.next >= 3000 || y.next >= 30_000) && y.count[what] == 0 {
			t.Errorf("%q did not happen in %d schedules", what, y.next)
		}
	}
	slices.Sort(y.failed)
	for i, seed := range y.failed {
		if i == 0 {
			report(t, z.name, seed, z.shards(seed), z.run)
		} else {
			t.Errorf("seed %d fails too", seed)
		}
	}
}

func logCounts(t *testing.T, count map[string]int) {
	t.Helper()
	var lines []string
	for k, n := range count {
		lines = append(lines, fmt.Sprintf("%9d %s", n, k))
	}
	slices.Sort(lines)
	t.Log("seen:\n" + strings.Join(lines, "\n"))
}
