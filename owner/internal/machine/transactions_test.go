package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// TestTransactions holds what each transaction compares and changes: DESIGN's table, as it goes out. Each
// compare is one of the rules that make double work impossible or rare; taking one away fails here, by its name.
func TestTransactions(t *testing.T) {
	grants := func(s ...int) shard.Plan {
		var p shard.Plan
		for _, s := range s {
			p.Grants = append(p.Grants, shard.Change{Shard: s, To: "b"})
		}
		return p
	}
	// In all of them the config is of revision 2, the node's lease 1, its record of revision 3. Then comes b, under
	// lease 2, of revision 4.
	for _, test := range []struct {
		kind Kind
		do   func(r *rig)
		ifs  string
		then string
	}{
		{Configure, nil, "config absent", `put config @0 {"format":1,"id":"gid","shards":4,"hash":"xxh64","lineage":0}`},
		{Join, nil, "members/a absent, config.mod=2", `put members/a @1 {"format":1,"id":"a","weight":1,"ttl_ms":10000}`},
		{
			Update, func(r *rig) { r.step(Leave{}) },
			"members/a.create=3, members/a.mod=3",
			`put members/a @1 {"format":1,"id":"a","weight":1,"draining":true,"ttl_ms":10000}`,
		},
		{
			Grant, func(r *rig) { r.plan(grants(1, 3)) },
			"members/a.create=3, members/b.mod=4, config.mod=2, claims/00001 absent, claims/00003 absent",
			`put claims/00001 @2 {"format":1,"member":"b"}, delete moves/00001, put claims/00003 @2 {"format":1,"member":"b"}, delete moves/00003`,
		},
		{
			Move, func(r *rig) {
				r.claim(1, 0, 1)
				r.plan(shard.Plan{Moves: []shard.Change{{Shard: 0, From: "a", To: "b"}, {Shard: 1, From: "a", To: "b"}}})
			},
			"members/a.create=3, members/b.mod=4, claims/00000.lease=1, moves/00000 absent, claims/00001.lease=1, moves/00001 absent",
			`put moves/00000 @2 {"format":1,"to":"b","ready":true}, put moves/00001 @2 {"format":1,"to":"b","ready":true}`,
		},
		{
			Cancel, func(r *rig) {
				r.claim(1, 0)
				r.order(2, "b", false, 0)
				r.plan(shard.Plan{Cancels: []shard.Change{{Shard: 0, From: "a", To: "b"}}})
			},
			"members/a.create=3, moves/00000.create=6", "delete moves/00000",
		},
		{
			Reap, func(r *rig) {
				r.plans = true
				r.claim(0, 2)
				r.live(ttl + ttl/10 + time.Second)
			},
			"members/a.create=3, claims/00002.mod=5", "delete claims/00002",
		},
		{
			SetReady, func(r *rig) {
				r.claim(2, 0)
				r.order(1, "a", false, 0)
			},
			"moves/00000.create=6", `put moves/00000 @1 {"format":1,"to":"a","ready":true}`,
		},
		{
			Decline, func(r *rig) {
				r.m.c.Member.Prepares = true
				r.claim(2, 0)
				r.order(1, "a", false, 0)
				r.step(Prepared{Shard: 0, Move: take[Prepare](r).Move, Err: errTest})
			},
			"moves/00000.create=6", `delete moves/00000, put avoid/00000/a @1 {"format":1,"why":"prepare: made to fail","for_ms":10000}`,
		},
		{
			Transfer, func(r *rig) {
				e := r.serving()
				r.order(2, "b", true, 0)
				r.finish(e)
			},
			"config.mod=2, members/b.mod=4, claims/00000.mod=5, moves/00000.create=6",
			`put claims/00000 @2 {"format":1,"member":"b"}, delete moves/00000`,
		},
		{
			Reclaim, func(r *rig) {
				e := r.serving()
				r.step(Drained{Shard: 0, Epoch: e})
				r.step(Returned{Shard: 0, Epoch: e, Err: errTest})
				r.step(Drained{Shard: 0, Epoch: e})
				r.live(time.Second)
			},
			"config.mod=2, members/a.create=3, claims/00000.mod=5", `put claims/00000 @1 {"format":1,"member":"a"}`,
		},
		{
			Release, func(r *rig) { r.failStarts(3) },
			"claims/00000.mod=7", `delete claims/00000, put avoid/00000/a @1 {"format":1,"why":"made to fail","for_ms":10000}`,
		},
		{
			Unavoid, func(r *rig) {
				r.failStarts(3)
				r.hold[Release] = false
				r.settle()
				r.live(20 * time.Second)
			},
			"avoid/00000/a.create=8", "delete avoid/00000/a",
		},
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			r := newRig(t)
			r.hold[test.kind] = true
			r.settle()
			if test.do != nil {
				r.drop()
				r.other("b", false)
				test.do(r)
			}
			txn := r.commitOf(test.kind).Txn
			if err := txn.Validate(); err != nil {
				t.Error(err)
			}
			ifs, then := describe(r.keys.Prefix(), txn)
			if diff := cmp.Diff(test.ifs, strings.Join(ifs, ", ")); diff != "" {
				t.Errorf("if (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.then, strings.Join(then, ", ")); diff != "" {
				t.Errorf("then (-want +got):\n%s", diff)
			}
		})
	}
}

// plan has the node, as the planner, carry out p.
func (r *rig) plan(p shard.Plan) {
	r.Helper()
	r.live(2 * time.Second)
	if r.m.plan.underWay {
		take[MakePlan](r)
	} else {
		r.m.plan.underWay = true // as if one were under way
	}
	r.step(Planned{Plan: p})
}

// failStarts has n starts of shard 0 fail, under epochs of their own.
func (r *rig) failStarts(n int) {
	r.Helper()
	r.claim(1, 0)
	for range n {
		e := take[Start](r).Token.Epoch
		r.step(Returned{Shard: 0, Epoch: e, Err: errTest})
		r.step(Drained{Shard: 0, Epoch: e})
		r.live(time.Second)
	}
}

// A shard is in one transaction at a time, also when two are due in one step.
func TestShard_OneTransactionOutOfAStep(t *testing.T) {
	r := joined(t)
	r.hold[Release], r.hold[Unavoid] = true, true
	r.failStarts(3)
	r.answer(r.commitOf(Release))
	r.watch()
	for range 50 {
		r.live(10 * time.Second)
		if r.m.slots[0].txn != 0 {
			break
		}
	}
	// Its avoid is due to go, and here comes the shard again, which still can't start.
	unavoid := r.commitOf(Unavoid)
	r.m.slots[0].failed = failedStarts
	r.claim(1, 0)
	r.uncertain(unavoid)
	r.pass(retryAfter)
	r.commitOf(Release)
	r.noCommit(Unavoid, "the RELEASE is under way")
}

// TestCase_PostHog82913_PlansGoInBatches: a plan of any size goes out in transactions that the store takes, a window
// at a time, none mixing targets.
func TestCase_PostHog82913_PlansGoInBatches(t *testing.T) {
	r := joined(t, func(c *Config) { c.Group.Shards = 1000 })
	lb := r.other("b", false)
	r.other("c", false)
	r.live(time.Second)
	var p shard.Plan
	for s := range 1000 {
		p.Grants = append(p.Grants, shard.Change{Shard: s, To: string("bc"[s%2])})
	}
	r.plan(p)
	sent, txns := 0, 0
	for sent < 1000 {
		var open []Commit
		for _, e := range r.pending {
			if c, ok := e.(Commit); ok {
				open = append(open, c)
			}
		}
		if len(open) == 0 || len(open) > window {
			t.Fatalf("%d transactions are under way after %d shards: want 1 to %d", len(open), sent, window)
		}
		r.drop()
		for _, c := range open {
			if err := c.Txn.Validate(); err != nil {
				t.Fatal(err)
			}
			leases := make(map[cas.LeaseID]bool)
			for _, o := range c.Txn.Then {
				if !o.Delete {
					leases[o.Lease] = true
				}
			}
			if len(leases) != 1 {
				t.Fatalf("one transaction for %d targets", len(leases))
			}
			sent += len(c.Shards)
			txns++
			r.answer(c)
			r.watch()
		}
	}
	if want := 2 * (500 + batchShards - 1) / batchShards; txns > want {
		t.Errorf("%d transactions: want at most %d", txns, want)
	}
	if got := r.m.View().Held(lb); got != 500 {
		t.Errorf("b holds %d shards, want 500", got)
	}
}
