package machine

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// exits is the error that the node has ended with.
func (r *rig) exits() error {
	r.Helper()
	return take[Exit](r).Err
}

// Nobody else can take the shards: handlers stop, in order, then the lease goes, with the gate closed before.
func TestLeave_NobodyElse(t *testing.T) {
	r := joined(t)
	e := r.serving()
	r.drop()
	r.step(Leave{})
	r.settle()
	take[Close](r)
	none[Revoke](r, "the handler runs")
	r.step(Drained{Shard: 0, Epoch: e})
	take[End](r)
	none[Revoke](r, "the handler flushes")
	r.step(Returned{Shard: 0, Epoch: e})
	if got := take[Trust](r).Until; got != 0 {
		t.Errorf("trust until %v when the lease is revoked", got)
	}
	rv := take[Revoke](r)
	none[Exit](r, "the answer is out")
	r.answer(rv)
	if err := r.exits(); err != nil {
		t.Error(err)
	}
	if len(r.store.leases) != 0 {
		t.Error("the lease lives")
	}
}

// Others there: the planner's moves take the shards, and the node goes when the last is gone.
func TestLeave_HandsOver(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	e := r.serving()
	r.step(Leave{})
	r.settle()
	if !r.m.View().Members["a"].Draining {
		t.Fatal("its record does not say so")
	}
	r.live(time.Second)
	none[Close](r, "nobody has ordered a move")
	r.order(2, "b", true, 0)
	r.settle()
	take[Close](r)
	r.finish(e)
	r.settle()
	if got := r.m.View().Claims[0].Lease; got != 2 {
		t.Errorf("lease %d has the shard, want 2", got)
	}
	if err := r.exits(); err != nil {
		t.Error(err)
	}
}

// Past the deadline the node stops waiting for moves.
func TestLeave_Deadline(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	r.serving()
	r.step(Leave{})
	r.live(drainPrepare + latchSlack - time.Millisecond)
	none[Close](r, "there is time left")
	r.live(time.Millisecond)
	take[Close](r)
}

// Past the latch nothing starts and nothing is claimed any more.
func TestLeave_LatchForbidsReclaim(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	e := r.serving()
	r.order(2, "b", false, 0)
	r.step(Leave{})
	r.live(drainPrepare + latchSlack)
	take[Close](r)
	r.hold[Transfer], r.hold[Reclaim] = true, true
	r.put(cas.Delete(r.keys.Move(0)))
	r.finish(e)
	r.noCommit(Reclaim, "it leaves")
	r.settle()
	if err := r.exits(); err != nil {
		t.Error(err)
	}
}

// A transfer under way is waited for.
func TestLeave_WaitsForTheLastTransfer(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	e := r.serving()
	r.order(2, "b", true, 0)
	r.hold[Transfer] = true
	r.step(Leave{})
	r.settle()
	r.finish(e)
	r.live(drainPrepare + latchSlack + time.Second)
	none[Exit](r, "a transfer is under way")
	none[Revoke](r, "a transfer is under way")
	r.answer(r.commitOf(Transfer))
	r.watch()
	r.settle()
	if err := r.exits(); err != nil {
		t.Error(err)
	}
}

// The lease lost while leaving: exit, and don't join again.
func TestLeave_LeaseLost(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	e := r.serving()
	r.step(Leave{})
	r.settle()
	_ = r.store.revoke("expired", 1)
	r.watch()
	take[Lose](r)
	r.settle()
	none[Exit](r, "its handler runs")
	r.finish(e)
	r.settle()
	none[GrantLease](r, "it leaves")
	if err := r.exits(); err != nil {
		t.Error(err)
	}
}

// Leaving before the node has joined takes back whatever it had begun.
func TestLeave_BeforeItJoined(t *testing.T) {
	for name, begun := range map[string]func(r *rig){
		"nothing":         func(*rig) {},
		"lease asked for": func(r *rig) { r.answer(r.commitOf(Configure)); r.watch() },
		"joining": func(r *rig) {
			r.hold[Join] = true
			r.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			begun(r)
			r.step(Leave{})
			r.hold[Join] = false
			r.live(time.Second)
			if err := r.exits(); err != nil {
				t.Error(err)
			}
			if len(r.store.leases) != 0 {
				t.Error("a lease is left")
			}
		})
	}
	t.Run("nothing seen", func(t *testing.T) {
		r := bare(t)
		r.step(Leave{})
		if err := r.exits(); err != nil {
			t.Error(err)
		}
	})
}

// A store that is away holds a leaving node up for no longer than trust lasts and one request more.
func TestLeave_StoreAway(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	e := r.serving()
	r.hold[Update] = true
	r.step(Leave{})
	r.uncertain(r.commitOf(Update))
	for end := r.now + trust0 + ttl; r.now < end; r.pass(100 * time.Millisecond) {
		for len(r.pending) > 0 {
			next := r.pending[0]
			r.pending = r.pending[1:]
			switch eff := next.(type) {
			case Renew:
				r.step(Renewed{Sent: r.now, Lease: cas.Lease{ID: eff.Lease}, Err: cas.ErrUncertain})
			case Revoke:
				r.step(Revoked{Lease: eff.Lease, Err: cas.ErrUncertain})
			case Commit:
				if eff.Kind == Update {
					r.uncertain(eff)
				}
			case Close, Lose:
				r.step(Drained{Shard: 0, Epoch: e})
				r.step(Returned{Shard: 0, Epoch: e})
			case Exit:
				return
			}
		}
	}
	t.Errorf("still there after %v", trust0+ttl)
}
