package machine

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// The start rule, one test for each of its conditions. See also TestCase_etcd19597 (the current lease) and TestCase_etcd15247_ClaimReplaced
// (the old handler is gone).

func TestStartRule_NeedsTrust(t *testing.T) {
	r := joined(t)
	r.lostRenewals(trust0 + time.Second)
	r.claim(1, 0)
	none[Start](r, "there is no trust")
	r.live(time.Second) // a renewal gets through: the store had kept the lease
	take[Start](r)
}

// I4: what was used is never used again.
func TestStartRule_I4_NeverTwiceUnderOneEpoch(t *testing.T) {
	r := joined(t)
	r.hold[Reclaim] = true
	epoch := r.serving()
	r.step(Returned{Shard: 0, Epoch: epoch, Err: errTest})
	take[Lose](r)
	r.step(Drained{Shard: 0, Epoch: epoch})
	take[Finish](r)
	r.live(time.Second)
	none[Start](r, "the epoch was used")
	// Not by a re-list either.
	r.list()
	none[Start](r, "the epoch was used")
	r.answer(r.commitOf(Reclaim))
	r.watch()
	if got := take[Start](r).Token.Epoch; got <= epoch {
		t.Errorf("starts under epoch %v after %v", got, epoch)
	}
}

// Sent means never again: after a TRANSFER went out whose fate nobody knows, that epoch neither starts nor opens.
func TestStartRule_NotAfterTransferWasSent(t *testing.T) {
	r := joined(t)
	r.other("b", false)
	r.order(2, "b", true, 0)
	r.hold[Transfer], r.hold[Reclaim] = true, true
	// A claim comes while a move away is pending: it goes on without a handler.
	r.claim(1, 0)
	c := r.commitOf(Transfer)
	none[Start](r, "it is on its way")
	r.put(cas.Delete(r.keys.Move(0)))
	r.uncertain(c)
	r.pass(retryAfter)
	none[Start](r, "the TRANSFER may yet be applied")
	r.answer(r.commitOf(Reclaim))
	r.watch()
	take[Start](r)
	// And the late one is refused.
	if _, err := r.store.commit("TRANSFER", c.Txn); err == nil {
		t.Error("the late TRANSFER was applied")
	}
}

func TestStartRule_NotAfterReleaseWasSent(t *testing.T) {
	r := joined(t)
	r.hold[Release] = true
	r.failStarts(3)
	c := r.commitOf(Release)
	r.uncertain(c)
	r.pass(retryAfter)
	none[Start](r, "the RELEASE may yet be applied")
	r.commitOf(Release)
}

// An old handler that runs on holds the next start back, whoever has granted the shard anew.
func TestStartRule_OldHandlerGone(t *testing.T) {
	r := joined(t)
	epoch := r.serving()
	r.put(cas.Delete(r.keys.Claim(0)))
	take[Lose](r)
	r.claim(1, 0)
	r.pass(time.Second)
	none[Start](r, "the old handler runs")
	r.step(Returned{Shard: 0, Epoch: epoch})
	none[Start](r, "requests are inside")
	r.step(Drained{Shard: 0, Epoch: epoch})
	take[Finish](r)
	take[Start](r)
}

// ... or it is given up on, and declared so.
func TestStartRule_OldHandlerForced(t *testing.T) {
	r := joined(t)
	epoch := r.serving()
	r.put(cas.Delete(r.keys.Claim(0)))
	r.claim(1, 0)
	r.live(8*time.Second - time.Millisecond)
	none[Start](r, "the old handler runs")
	r.live(time.Millisecond)
	if e := take[Overdue](r); e.Epoch != epoch || !e.Forced {
		t.Errorf("got %+v, want forced", e)
	}
	take[Start](r)
}

func TestStartRule_NotWhileLeaving(t *testing.T) {
	r := joined(t)
	r.hold[Update] = true
	r.step(Leave{}) // nobody else is there: the latch falls at once
	r.claim(1, 0)
	none[Start](r, "it leaves")
	r.noCommit(Reclaim, "it leaves")
}

// A claim from before the lineage was raised is claimed anew before anybody acts under it (I2).
func TestStartRule_Lineage(t *testing.T) {
	r := joined(t)
	r.hold[Reclaim] = true
	epoch := r.serving()
	r.raise(40)
	if got := take[Close](r).Epoch; got != epoch {
		t.Fatalf("closes epoch %v, want %v", got, epoch)
	}
	r.step(Drained{Shard: 0, Epoch: epoch})
	if got := take[End](r).Epoch; got != epoch {
		t.Fatalf("ends epoch %v, want %v", got, epoch)
	}
	r.step(Returned{Shard: 0, Epoch: epoch})
	none[Start](r, "the claim is of the lineage before")
	r.answer(r.commitOf(Reclaim))
	r.watch()
	got := take[Start](r).Token.Epoch
	if got.Lineage() != 40 || got <= epoch {
		t.Errorf("starts under epoch %v after %v", got, epoch)
	}
}

func (r *rig) raise(lineage int) {
	r.Helper()
	c := r.m.View().Config.Config
	c.Lineage = lineage
	r.put(cas.Put(r.keys.Config(), layout.Encode(c)))
}

// Three failed starts in a row, and the shard goes to somebody else. What is not the handler's fault does not count.
func TestRelease_AfterThreeFailedStarts(t *testing.T) {
	r := joined(t)
	r.hold[Release] = true
	r.claim(1, 0)
	fail := func(ev Event) {
		t.Helper()
		e := take[Start](r).Token.Epoch
		if ev == nil {
			r.live(r.m.c.StartTimeout) // it is not ready in time
			ev = Returned{Err: errTest}
		}
		ret := ev.(Returned)
		r.step(Returned{Shard: 0, Epoch: e, Err: ret.Err})
		r.step(Drained{Shard: 0, Epoch: e})
		take[Finish](r)
	}
	for range 3 { // starts that an outage ended
		e := take[Start](r).Token.Epoch
		r.lostRenewals(trust0 + time.Second)
		take[Lose](r)
		r.step(Returned{Shard: 0, Epoch: e})
		r.step(Drained{Shard: 0, Epoch: e})
		take[Finish](r)
		r.live(time.Second)
	}
	r.noCommit(Release, "no start has failed")
	fail(Returned{Err: errTest})
	r.live(time.Second)
	fail(nil)
	r.live(time.Second)
	r.noCommit(Release, "two starts have failed")
	fail(Returned{})
	r.live(2 * time.Second)
	none[Start](r, "three starts have failed")
	r.answer(r.commitOf(Release))
	r.watch()
	if got := r.m.View().Claims[0]; got.Rev != 0 {
		t.Errorf("the claim is there still: %+v", got)
	}
	if _, ok := r.m.View().Avoids[0]["a"]; !ok {
		t.Error("it left no avoid")
	}
}

// A shard has one transaction under way at a time, whatever happens meanwhile.
func TestShard_OneTransactionAtATime(t *testing.T) {
	r := joined(t)
	r.hold[Reclaim] = true
	e := r.serving()
	r.step(Returned{Shard: 0, Epoch: e, Err: errTest})
	r.step(Drained{Shard: 0, Epoch: e})
	r.live(time.Second)
	c := r.commitOf(Reclaim)
	r.put(cas.Put(r.keys.Pin(0), layout.Encode(layout.Pin{Format: 1, Member: "a"})))
	r.live(time.Second)
	r.noCommit(Reclaim, "one is under way")
	r.answer(c)
}

// The back-off doubles, and a tenure that served for a while clears it.
func TestBackOff(t *testing.T) {
	r := joined(t)
	r.claim(1, 0)
	began := func() time.Duration {
		t.Helper()
		for from := r.now; ; r.live(firstBackoff / 4) {
			for _, e := range r.pending {
				if _, ok := e.(Start); ok {
					return r.now - from
				}
			}
			if r.now-from > time.Minute {
				t.Fatal("it never starts")
			}
		}
	}
	var waits []time.Duration
	for i := range 5 {
		waits = append(waits, began())
		e := r.makeReady()
		if i == 3 {
			r.live(steady)
		}
		r.step(Returned{Shard: 0, Epoch: e, Err: errTest})
		r.step(Drained{Shard: 0, Epoch: e})
	}
	if !(waits[0] == 0 && waits[1] >= firstBackoff && waits[2] >= 2*firstBackoff && waits[3] >= 4*firstBackoff && waits[4] < 2*firstBackoff) {
		t.Errorf("waits: %v", waits)
	}
}
