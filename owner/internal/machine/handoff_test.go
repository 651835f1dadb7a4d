package machine

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// moving is a node that serves shard 0, which is to move to b, under lease 2.
func moving(t *testing.T, ready bool, change ...func(*Config)) (*rig, shard.Epoch) {
	t.Helper()
	r := joined(t, change...)
	r.other("b", false)
	e := r.serving()
	r.drop()
	r.hold[Transfer] = true
	r.order(2, "b", ready, 0)
	return r, e
}

// I5, case 9: the claim goes only after admission closed, nobody is inside and the handler has returned.
func TestCase_k8s139991_I5_TransferWaitsForTheHandler(t *testing.T) {
	for name, order := range map[string][]func(*rig, shard.Epoch){
		"requests last": {
			func(r *rig, e shard.Epoch) { r.step(Returned{Shard: 0, Epoch: e}) },
			func(r *rig, e shard.Epoch) { r.step(Drained{Shard: 0, Epoch: e}) },
		},
		"handler last": {
			func(r *rig, e shard.Epoch) { r.step(Drained{Shard: 0, Epoch: e}) },
			func(r *rig, e shard.Epoch) { r.step(Returned{Shard: 0, Epoch: e, Err: errTest}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, e := moving(t, true)
			if got := take[Close](r).Epoch; got != e {
				t.Fatalf("closes epoch %v, want %v", got, e)
			}
			none[End](r, "requests are inside: the handler serves them")
			r.noCommit(Transfer, "requests are inside")
			order[0](r, e)
			r.live(time.Second)
			r.noCommit(Transfer, "something runs")
			order[1](r, e)
			take[Finish](r)
			r.answer(r.commitOf(Transfer))
			r.watch()
			if got := r.m.View().Claims[0].Lease; got != 2 {
				t.Errorf("lease %d has the shard, want 2", got)
			}
			none[Start](r, "the shard is gone")
		})
	}
}

// A target that does not get ready is waited for, then it goes on without.
func TestHandoff_PrepareTimeout(t *testing.T) {
	r, _ := moving(t, false)
	r.live(10*time.Second - time.Millisecond)
	none[Close](r, "the target warms up")
	r.live(time.Millisecond)
	take[Close](r)
}

// In a drain it waits less.
func TestHandoff_PrepareTimeoutInADrain(t *testing.T) {
	r, _ := moving(t, false)
	r.step(Leave{})
	r.live(5 * time.Second)
	take[Close](r)
}

func TestHandoff_ReadyEndsTheWait(t *testing.T) {
	r, _ := moving(t, false)
	r.live(time.Second)
	none[Close](r, "the target warms up")
	r.order(2, "b", true, 0)
	r.settle() // the store is asked whether it takes writes
	take[Close](r)
}

// Case 16: a target that drains gets nothing, nor one that is gone or can't be read.
func TestCase_cadence7594_TargetDrains(t *testing.T) {
	for name, spoil := range map[string]func(r *rig){
		"drains":     func(r *rig) { r.record("b", 2, true) },
		"gone":       func(r *rig) { r.put(cas.Delete(r.keys.Member("b"))) },
		"unreadable": func(r *rig) { r.put(cas.PutLeased(r.keys.Member("b"), []byte("nonsense"), 2)) },
	} {
		t.Run(name, func(t *testing.T) {
			r, e := moving(t, true)
			spoil(r)
			r.finish(e) // it had closed: a closed gate never opens again
			r.noCommit(Transfer, "the target is unfit")
			r.settle()
			if got := take[Start](r).Token.Epoch; got <= e {
				t.Errorf("starts under epoch %v after %v", got, e)
			}
		})
	}
}

// Case 16: the target's record is compared, so one that has begun to drain unseen refuses the transfer, and the shard
// is claimed anew.
func TestCase_cadence7594_TargetDrainsUnseen(t *testing.T) {
	r, e := moving(t, true)
	r.finish(e)
	c := r.commitOf(Transfer)
	r.deaf = true
	r.record("b", 2, true)
	r.answer(c)
	r.deaf = false
	r.watch()
	r.settle()
	if got := take[Start](r).Token.Epoch; got <= e {
		t.Errorf("starts under epoch %v after %v", got, e)
	}
}

// Case 1: a transfer that is applied late, after the claim has changed, changes nothing.
func TestCase_etcd22082_LateTransferIsRefused(t *testing.T) {
	r, e := moving(t, true)
	r.finish(e)
	c := r.commitOf(Transfer)
	r.uncertain(c)
	r.claim(2, 0)            // the first had been applied, and b
	r.order(2, "b", true, 0) // has it; a second move comes
	if _, err := r.store.commit("TRANSFER", c.Txn); err == nil {
		t.Error("a transfer under an old epoch was applied")
	}
	r.live(time.Second)
	r.noCommit(Transfer, "the shard is b's")
}

// An uncertain transfer is sent again as long as the claim and the move are there: one of them is a conflict.
func TestTransfer_UncertainIsSentAgain(t *testing.T) {
	r, e := moving(t, true)
	r.finish(e)
	first := r.commitOf(Transfer)
	r.uncertain(first)
	r.pass(retryAfter)
	second := r.commitOf(Transfer)
	for i, c := range []Commit{first, second} {
		if _, err := r.store.commit("TRANSFER", c.Txn); (err == nil) != (i == 0) {
			t.Errorf("transfer %d: %v", i, err)
		}
	}
	none[Start](r, "the shard is given away")
}

// A cancelled move after the gate closed: the handler ends all the same, and the shard is claimed anew.
func TestCancel_WhileDraining(t *testing.T) {
	r, e := moving(t, true)
	take[Close](r)
	r.put(cas.Delete(r.keys.Move(0)))
	r.finish(e)
	r.settle()
	if got := take[Start](r).Token.Epoch; got <= e {
		t.Errorf("starts under epoch %v after %v", got, e)
	}
}

// Past DrainTimeout the hand-off is forced: declared, and then transferred.
func TestForced_Transfer(t *testing.T) {
	r, e := moving(t, true)
	r.live(8*time.Second - time.Millisecond)
	none[Overdue](r, "it has time left")
	r.live(time.Millisecond)
	if got := take[Overdue](r); got.Epoch != e || !got.Forced {
		t.Errorf("got %+v, want forced", got)
	}
	r.commitOf(Transfer)
}

// A handler that overstays with no move pending makes its shard somebody else's: this process may be stuck.
func TestForced_Release(t *testing.T) {
	r, e := moving(t, true)
	r.hold[Release] = true
	r.put(cas.Delete(r.keys.Move(0)))
	r.live(8 * time.Second)
	if got := take[Overdue](r); got.Epoch != e || !got.Forced {
		t.Errorf("got %+v, want forced", got)
	}
	r.commitOf(Release)
	r.noCommit(Reclaim, "it may be stuck")
}

// NeverForce: the shard stays until the handler has returned.
func TestNeverForce(t *testing.T) {
	r, e := moving(t, true, func(c *Config) { c.NeverForce = true })
	r.hold[Release] = true
	r.live(8 * time.Second)
	if got := take[Overdue](r); got.Epoch != e || got.Forced {
		t.Errorf("got %+v, want not forced", got)
	}
	r.live(time.Hour)
	r.noCommit(Transfer, "NeverForce")
	r.noCommit(Release, "NeverForce")
	r.finish(e)
	r.commitOf(Transfer)
}

// The target of a move warms up, then says READY, once.
func TestPrepare_Ready(t *testing.T) {
	r := joined(t, prepares)
	r.other("b", false)
	r.claim(2, 0)
	r.hold[SetReady] = true
	r.order(1, "a", false, 0)
	p := take[Prepare](r)
	r.noCommit(SetReady, "it warms up")
	r.step(Prepared{Shard: 0, Move: p.Move})
	r.answer(r.commitOf(SetReady))
	r.watch()
	r.live(time.Second)
	r.noCommit(SetReady, "it said so")
	r.claim(1, 0)
	if s := take[Start](r); !s.Prepared {
		t.Error("starts without what was prepared")
	}
	none[Unprepare](r, "it is in use")
}

// What was prepared for a move that is gone is of no use; an answer for it changes nothing.
func TestPrepare_MoveGone(t *testing.T) {
	r := joined(t, prepares)
	r.other("b", false)
	r.claim(2, 0)
	r.order(1, "a", false, 0)
	p := take[Prepare](r)
	r.put(cas.Delete(r.keys.Move(0)))
	take[Unprepare](r)
	r.order(1, "a", false, 0)
	again := take[Prepare](r)
	if again.Move == p.Move {
		t.Fatal("the second move is the first")
	}
	r.hold[SetReady] = true
	r.step(Prepared{Shard: 0, Move: p.Move})
	r.noCommit(SetReady, "that was for the move before")
}

// Avoid: a target that can't prepare declines, and takes its word back after a while.
func TestDecline_AndBack(t *testing.T) {
	r := joined(t, prepares)
	r.other("b", false)
	r.claim(2, 0)
	for range 2 {
		r.order(1, "a", false, 0)
		r.step(Prepared{Shard: 0, Move: take[Prepare](r).Move, Err: errTest})
		r.settle()
		if _, ok := r.m.View().Avoids[0]["a"]; !ok {
			t.Fatal("it left no avoid")
		}
		r.live(firstAvoid - time.Second)
		if len(r.m.View().Avoids) == 0 {
			t.Error("the avoid is gone too soon")
		}
		r.live(2 * time.Second)
		if len(r.m.View().Avoids) != 0 {
			t.Error("the avoid stays")
		}
	}
}

// An avoid that went with its lease does not shorten the next one.
func TestDecline_AvoidGoneWithItsLease(t *testing.T) {
	r := joined(t, prepares)
	r.other("b", false)
	r.claim(2, 0)
	decline := func(lease cas.LeaseID) {
		t.Helper()
		r.order(lease, "a", false, 0)
		r.step(Prepared{Shard: 0, Move: take[Prepare](r).Move, Err: errTest})
		r.settle()
		if _, ok := r.m.View().Avoids[0]["a"]; !ok {
			t.Fatal("it left no avoid")
		}
	}
	decline(1)
	_ = r.store.revoke("expired", 1)
	r.watch()
	r.settle()
	r.live(firstAvoid + time.Second)
	decline(r.m.Lease())
	r.live(firstAvoid - time.Second)
	if _, ok := r.m.View().Avoids[0]["a"]; !ok {
		t.Error("the second avoid is gone too soon")
	}
}

// Shards are handed over a few at a time; one that takes long does not hold up the others.
func TestHandoff_InTurns(t *testing.T) {
	r := joined(t)
	lb := r.other("b", false)
	r.claim(r.m.Lease(), 0, 1, 2, 3)
	for range 4 {
		st := take[Start](r)
		r.step(Ready{Shard: st.Token.Shard, Epoch: st.Token.Epoch})
		take[Open](r)
	}
	r.order(lb, "b", true, 0, 1, 2, 3)
	r.settle()
	first, second := take[Close](r), take[Close](r)
	none[Close](r, "two are under way")
	r.step(Drained{Shard: first.Shard, Epoch: first.Epoch})
	r.step(Returned{Shard: first.Shard, Epoch: first.Epoch})
	r.settle()
	third := take[Close](r)
	if third.Shard == first.Shard || third.Shard == second.Shard {
		t.Errorf("closes shard %d again", third.Shard)
	}
	none[Close](r, "two are under way again")
	r.pass(darkPatience)
	take[Close](r)
}
