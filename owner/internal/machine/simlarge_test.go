package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// TestSimLarge plays schedules in large clusters: 5 to 50 nodes, 64 to 4096 shards, every kind of fault. Ten thousand:
//
//	go test ./owner/internal/machine -run '^TestSimLarge$' -v -timeout 0 -sim.runs=10000
func TestSimLarge(t *testing.T) { large.test(t) }

var large = size{
	name:   "TestSimLarge",
	shards: func(seed uint64) int { return 64 << (hashOf(fmt.Sprint(seed)) % 7) },
	run:    largeSchedule,
	runs:   largeRuns,
}

// largeSchedule is schedule with more of everything but time.
func largeSchedule(w *world) {
	w.base = Config{
		Member:         layout.Member{Member: shard.Member{Version: "test"}},
		TTL:            2 * time.Second,
		StartTimeout:   time.Second,
		PrepareTimeout: time.Second,
		DrainTimeout:   800 * time.Millisecond,
		NeverForce:     w.IntN(16) == 0,
		MinMembers:     1 + w.IntN(10),
		Settle:         200 * time.Millisecond,
	}
	nodes := 5 + w.IntN(46)
	w.most = nodes + 5
	w.knocks = 2 * time.Millisecond
	w.swarm()
	for range nodes {
		w.after(w.between(0, time.Second), func() { w.start(w.fresh()) })
	}
	w.after(0, w.expireLeases)
	w.after(0, w.traffic)
	w.after(w.between(0, 2*time.Second), w.act)
	w.run(w.between(3*time.Second, 15*time.Second))
	w.relieve()
	limit := 2 * time.Minute
	if w.base.NeverForce {
		// A handler that is stuck keeps its shard for up to 25 s, and its turn among those that may move at a time, which are a 64th of all.
		limit += 64 * 25 * time.Second
	}
	w.took = w.settle(limit)
	w.run(w.now + 2*w.base.TTL)
	w.sameViews()
}

// TestSimLarge_ReplaysExactly: a seed is all that a large schedule depends on.
func TestSimLarge_ReplaysExactly(t *testing.T) {
	if largeRuns == 0 || testing.Short() {
		t.Skip("too many steps for the race detector, or -short")
	}
	t.Parallel()
	const seed = 9
	a, _ := large.play(seed, false)
	b, _ := large.play(seed, true)
	if a.hash != b.hash || a.steps != b.steps {
		t.Errorf("seed %d: got hash %x after %d steps, want %x after %d", seed, b.hash, b.steps, a.hash, a.steps)
	}
}
