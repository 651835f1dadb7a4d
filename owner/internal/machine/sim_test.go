package machine

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

var (
	simSeed = flag.Uint64("sim.seed", 0, "replay this one schedule, with its trace")
	simFrom = flag.Uint64("sim.from", 1, "first seed")
	simRuns = flag.Int("sim.runs", 0, "how many schedules; 0: what fits into an ordinary test run")
	simTail = flag.Int("sim.tail", 400, "lines of a failed schedule's trace that are printed")
)

// schedule is one seed's life: a cluster of random shape lives through random faults; then they end, and I9
// has to come about.
func schedule(w *world) {
	w.base = Config{
		Member:         layout.Member{Member: shard.Member{Version: "test"}},
		TTL:            2 * time.Second,
		StartTimeout:   time.Second,
		PrepareTimeout: time.Second,
		DrainTimeout:   800 * time.Millisecond,
		NeverForce:     w.IntN(8) == 0,
		MinMembers:     1 + w.IntN(3),
		Settle:         200 * time.Millisecond,
	}
	w.swarm()
	for i := range 1 + w.IntN(4) {
		w.after(w.between(0, time.Second), func() { w.boot(string(rune('a'+i)), w.config()) })
	}
	w.after(0, w.expireLeases)
	w.after(0, w.traffic)
	w.after(w.between(0, 3*time.Second), w.act)
	w.run(w.between(5*time.Second, 20*time.Second))
	w.relieve()
	limit := 45 * time.Second
	if w.base.NeverForce {
		limit *= 2 // a handler that is stuck keeps its shard for up to 25 s, more than once
	}
	w.took = w.settle(limit)
	if w.seed%32 == 0 {
		// A back-off lasts up to five minutes.
		w.run(w.now + 6*time.Minute)
		w.settle(time.Second)
		if v := layout.Load(w.keys, w.group.Shards, w.store.list()); len(v.Avoids) > 0 {
			w.fail("I9: avoids are left: %v", v.Avoids)
		}
	}
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

// shardsOf is the size of a seed's group.
func shardsOf(seed uint64) int {
	if seed%100 == 0 {
		return 150 // more than a transaction holds
	}
	return int(1 + hashOf(fmt.Sprint(seed))%10)
}

func report(t *testing.T, name string, seed uint64, shards int, run func(*world)) {
	t.Helper()
	w, broken := play(seed, shards, true, run)
	lines := w.lines[max(0, len(w.lines)-*simTail):]
	t.Errorf("seed %d: %s\n%s\nseed %d: %s\nreplay: go test ./owner/internal/machine -run '%s' -sim.seed=%d",
		seed, broken, strings.Join(lines, "\n"), seed, broken, name, seed)
}

// TestSim plays thousands of short schedules. Invariants I1 to I9 are checked at every event.
func TestSim(t *testing.T) {
	if *simSeed != 0 {
		w, broken := play(*simSeed, shardsOf(*simSeed), true, schedule)
		t.Log(strings.Join(w.lines, "\n"))
		if broken != "" {
			t.Fatal(broken)
		}
		return
	}
	runs := *simRuns
	if runs == 0 {
		runs = defaultRuns
	}
	var next, steps, virtual, slowest atomic.Int64
	var mu sync.Mutex
	var failed []uint64
	count := make(map[string]int)
	began := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				mu.Lock()
				enough := len(failed) >= 3
				mu.Unlock()
				if i >= int64(runs) || enough {
					return
				}
				seed := *simFrom + uint64(i)
				w, broken := play(seed, shardsOf(seed), false, schedule)
				steps.Add(int64(w.steps))
				virtual.Add(int64(w.now))
				mu.Lock()
				slowest.Store(max(slowest.Load(), int64(w.took)))
				for k, n := range w.checks.count {
					count[k] += n
				}
				if broken != "" {
					failed = append(failed, seed)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	t.Logf("%d schedules, %d steps, %.0f h of cluster life in %v: %.0f steps/s; slowest to settle: %v",
		runs, steps.Load(), time.Duration(virtual.Load()).Hours(), took.Round(time.Millisecond),
		float64(steps.Load())/took.Seconds(), time.Duration(slowest.Load()))
	if testing.Verbose() {
		logCounts(t, count)
	}
	slices.Sort(failed)
	for i, seed := range failed {
		if i == 0 {
			report(t, "TestSim", seed, shardsOf(seed), schedule)
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
