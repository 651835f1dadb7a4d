package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// TestSim plays short schedules in small clusters: 1 to 6 nodes, 1 to 16 shards, every kind of fault. Invariants I1 to I9
// are checked at every event. A million of them:
//
//	go test ./owner/internal/machine -run '^TestSim$' -v -timeout 0 -sim.runs=1000000
func TestSim(t *testing.T) { small.test(t) }

var small = size{name: "TestSim", shards: shardsOf, run: schedule, runs: defaultRuns, sees: wonts()}

// wonts are what happens in three thousand schedules.
func wonts() []string {
	sees := []string{
		string(Configure), string(Join), string(Update), string(Grant), string(Move), string(Cancel), string(Reap), string(Decline),
		string(SetReady), string(Transfer), string(Reclaim), string(Release), string(Unavoid), string(Probe), "expired", "revoked",
		"admitted", "start", "overdue", "events lost", "watch compacted", "seal refused", "stale write refused",
		"exit: Abandoned", "exit: Restored", "exit: Taken", "restored: stopped by the operator", threeKinds,
		"lost: the claim is gone", "lost: the lease could not be renewed in time", "lost: the lease is gone",
		"lost: the member record is gone", "lost: the store is another cluster", "lost: the store's revisions went back",
	}
	for _, a := range acts {
		sees = append(sees, "act: "+a.name)
	}
	return sees
}

// shardsOf is the size of a seed's group.
func shardsOf(seed uint64) int {
	if seed%200 == 0 {
		return 150 // more than a transaction holds
	}
	return int(1 + hashOf(fmt.Sprint(seed))%16)
}

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
		w.after(w.between(0, time.Second), func() { w.start(string(rune('a' + i))) })
	}
	w.after(0, w.expireLeases)
	w.after(0, w.traffic)
	w.after(w.between(0, 2*time.Second), w.act)
	life := w.between(2*time.Second, 10*time.Second)
	if w.IntN(16) == 0 {
		life *= 4
	}
	w.run(life)
	w.relieve()
	limit := 45 * time.Second
	if w.base.NeverForce {
		limit *= 2 // a handler that is stuck keeps its shard for up to 25 s, more than once
	}
	w.took = w.settle(limit)
	if w.seed%16 == 0 {
		w.run(w.now + 2*w.base.TTL)
		w.sameViews()
	}
	if w.seed%32 == 0 {
		// A back-off lasts up to five minutes.
		w.run(w.now + 6*time.Minute)
		w.settle(time.Second)
		if v := layout.Load(w.keys, w.group.Shards, w.store.list()); len(v.Avoids) > 0 {
			w.fail("I9: avoids are left: %v", v.Avoids)
		}
	}
}
