package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// graceful is a schedule without faults: nodes join, leave, drain and come back, sometimes several at a time. No
// request is dropped, none waits too long, no shard moves that need not, and every node exits in good order.
func graceful(w *world) {
	w.base = Config{
		Member:         layout.Member{Member: shard.Member{Weight: 1}},
		TTL:            2 * time.Second,
		StartTimeout:   time.Second,
		PrepareTimeout: time.Second,
		DrainTimeout:   time.Second,
		NeverForce:     w.IntN(2) == 0,
		MinMembers:     1,
		Settle:         200 * time.Millisecond,
	}
	join := func() {
		c := w.base
		c.Member.Prepares = w.IntN(2) == 0
		w.boot(string(rune('a'+w.names)), c)
	}
	for range 1 + w.IntN(3) {
		join()
	}
	w.after(0, w.expireLeases)
	w.settle(time.Minute)
	w.checks.graceful = true
	w.after(0, w.traffic)
	for range 3 + w.IntN(4) {
		var staying []*simNode
		for _, n := range w.live() {
			if _, drains := w.store.keys[w.keys.Drain(n.id)]; !n.leaving && !drains {
				staying = append(staying, n)
			}
		}
		switch act := w.IntN(4); {
		case act == 0 || len(staying) < 2:
			join()
		case act == 1:
			staying[w.IntN(len(staying))].leave()
		case act == 2:
			w.drain(staying[w.IntN(len(staying))].id, true)
		default:
			w.drain(w.nodes[w.IntN(len(w.nodes))].id, false)
		}
		if w.IntN(3) == 0 {
			w.run(w.now + w.between(0, 500*time.Millisecond))
			continue // the next comes on top
		}
		w.run(w.now + 2*time.Millisecond)
		w.settle(time.Minute)
	}
	w.settle(time.Minute)
	if w.checks.count["GRANT"] > w.group.Shards {
		w.fail("I8: %d grants, of shards that were never orphaned", w.checks.count["GRANT"])
	}
}

// TestSim_I10_GracefulFailsNoRequest plays schedules without faults.
func TestSim_I10_GracefulFailsNoRequest(t *testing.T) {
	t.Parallel()
	const name = "TestSim_I10_GracefulFailsNoRequest"
	from, to := *simFrom, *simFrom+defaultRuns/10
	if *simSeed != 0 {
		from, to = *simSeed, *simSeed+1
	}
	for seed := from; seed < to; seed++ {
		if _, broken := play(seed, shardsOf(seed), false, graceful); broken != "" {
			report(t, name, seed, shardsOf(seed), graceful)
			return
		}
	}
}

// TestSim_I8_FewestMoves: after each change of membership exactly so many shards move as balance needs.
func TestSim_I8_FewestMoves(t *testing.T) {
	t.Parallel()
	const name = "TestSim_I8_FewestMoves"
	run := func(w *world) {
		w.base = Config{
			Member: layout.Member{Member: shard.Member{Weight: 1}}, TTL: 2 * time.Second, StartTimeout: time.Second,
			PrepareTimeout: time.Second, DrainTimeout: time.Second, MinMembers: 1, Settle: 200 * time.Millisecond,
		}
		w.boot("a", w.base)
		w.after(0, w.expireLeases)
		w.settle(time.Minute)
		for i := range 8 {
			before := w.checks.count[string(Move)]
			stays := w.live()
			var held []int
			orphans := 0
			if i%2 == 0 || len(stays) < 3 {
				w.boot(string(rune('b'+i)), w.base)
				held = append(held, 0)
			} else {
				gone := w.IntN(len(stays))
				orphans = len(stays[gone].tenures)
				stays[gone].leave()
				stays = slices.Delete(stays, gone, gone+1)
			}
			for _, n := range stays {
				held = append(held, len(n.tenures))
			}
			want := orphans + movesNeeded(w.group.Shards, held)
			w.run(w.now + 2*w.base.Settle) // time to join and to settle
			w.settle(time.Minute)
			if got := w.checks.count[string(Move)] - before; got != want {
				w.fail("I8: %d shards moved, %d is what balance needs", got, want)
			}
		}
	}
	for seed := uint64(1); seed <= 40; seed++ {
		shards := int(seed * 3)
		if _, broken := play(seed, shards, false, run); broken != "" {
			report(t, name, seed, shards, run)
			return
		}
	}
}

// movesNeeded is how many of held have to go somewhere else, at least, for all to be within quota.
func movesNeeded(shards int, held []int) int {
	slices.SortFunc(held, func(a, b int) int { return b - a })
	moves := 0
	for i, h := range held {
		quota := shards / len(held)
		if i < shards%len(held) {
			quota++
		}
		moves += max(0, h-quota)
	}
	return moves
}

// TestSim_ReplaysExactly: a seed is all that a schedule depends on.
func TestSim_ReplaysExactly(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 20; seed++ {
		a, _ := play(seed, shardsOf(seed), false, schedule)
		b, _ := play(seed, shardsOf(seed), true, schedule)
		if a.hash != b.hash || a.steps != b.steps {
			t.Errorf("seed %d: got hash %x after %d steps, want %x after %d", seed, b.hash, b.steps, a.hash, a.steps)
		}
	}
}
