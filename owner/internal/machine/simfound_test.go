package machine

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// What the simulation has found, without the noise around it.

// I7: a member record that an operator's put has detached from its lease goes before the next is put. Over it, the new one
// would keep its creation and be the oldest, while the planner that there was goes on to find its own unchanged.
func TestI7_ACorpseMakesNobodyOlder(t *testing.T) {
	r := newRig(t)
	corpse := layout.Member{Format: 1, Member: shard.Member{ID: "a", Weight: 1}}
	r.put(cas.Put(r.keys.Member("a"), layout.Encode(corpse)))
	r.other("b", false)
	r.settle()
	take[Joined](r)
	if r.m.Planning() {
		t.Error("the node plans, but b was a member before it")
	}
}

// A watch that lost an event leaves a view that is wrong. The store's refusals tell: the node lists anew, and waits
// between, where it would otherwise ask again as fast as the store refuses.
func TestView_ContradictedIsListedAnew(t *testing.T) {
	r := joined(t)
	r.put(cas.Put(r.keys.Drain("a"), []byte(`{"format":1}`)))
	r.settle() // it has said so
	r.hold[Update] = true
	r.deaf = true
	e := r.store.keys[r.keys.Member("a")]
	r.put(cas.PutLeased(e.Key, e.Value, e.Lease)) // lost
	r.put(cas.Delete(r.keys.Drain("a")))
	r.pos, r.deaf = r.store.rev-1, false
	r.watch()
	refuse := func() {
		t.Helper()
		c := r.commitOf(Update)
		rev, err := r.store.commit("UPDATE", c.Txn)
		r.step(Committed{ID: c.ID, Rev: rev, Err: err})
	}
	refuse()
	none[Relist](r, "another node may just have been faster")
	refuse()
	take[Relist](r)
	r.noCommit(Update, "at once")
	r.list()
	r.pass(mostRetry)
	refuse()
	if recordIn(t, r.store.keys[r.keys.Member("a")]).Draining {
		t.Error("the record still says that the node drains")
	}
}

// A PROBE finds the own record gone before the view does: it is not sent again as fast as the store refuses it.
func TestProbe_RefusedIsNotTriedAtOnce(t *testing.T) {
	r := joined(t)
	r.serving()
	lb := r.other("b", false)
	r.live(time.Minute)
	r.hold[Probe] = true
	r.order(lb, "b", true, 0)
	r.deaf = true
	r.put(cas.Delete(r.keys.Member("a")))
	c := r.commitOf(Probe)
	rev, err := r.store.commit("PROBE", c.Txn)
	r.step(Committed{ID: c.ID, Rev: rev, Err: err})
	r.noCommit(Probe, "at once")
	r.pass(retryAfter)
	r.commitOf(Probe)
}

// I8, I9: what a node was granted under a record that was erased before it was seen belongs to no member, and the planner
// reaps it some time. A node that becomes a member again under the same lease gives both up.
func TestI8_ClaimsOfAnErasedRecord(t *testing.T) {
	r := newRig(t)
	r.hold[Join] = true
	r.settle()
	r.deaf = true
	c, lease := r.commitOf(Join), r.m.Lease()
	if _, err := r.store.commit("JOIN", c.Txn); err != nil {
		t.Fatal(err)
	}
	r.claim(lease, 0)
	r.put(cas.Delete(r.keys.Member("a")))
	r.uncertain(c)
	r.deaf, r.hold[Join] = false, false
	r.list()
	r.live(mostRetry)
	none[Start](r, "it may be reaped")
	if r.m.Lease() == lease || r.store.leases[lease] != nil {
		t.Error("the node goes on under the lease")
	}
	if e := r.store.keys[r.keys.Claim(0)]; e.Rev != 0 {
		t.Errorf("the claim is still there: %+v", e)
	}
	take[Joined](r)
}

func recordIn(t *testing.T, e cas.Entry) layout.Member {
	t.Helper()
	m, err := layout.Decode[layout.Member](e.Value)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// I8: a lease that was nobody's and is a member's again is waited for anew when the record goes again, also if no plan was made in between:
// its holder may trust in it as long as ever.
func TestI8_AStrayThatWasAMemberAgain(t *testing.T) {
	r := joined(t)
	r.plans = true
	r.hold[Reap] = true
	lb := r.other("b", false)
	r.claim(lb, 0)
	r.live(2 * time.Second)
	record := r.store.keys[r.keys.Member("b")]
	r.put(cas.Delete(record.Key)) // as an operator might; or a watch has lost its put
	r.live(time.Second)
	r.plans = false
	r.put(cas.Put(r.keys.Pin(1), layout.Encode(layout.Pin{Format: 1, Member: "a"})))
	r.live(time.Second) // a plan is under way from here on
	r.put(cas.PutLeased(record.Key, record.Value, lb))
	r.live(ttl + Margin(ttl))
	r.put(cas.Delete(record.Key))
	r.plans = true
	r.live(time.Second)
	r.noCommit(Reap, "its holder was a member until a second ago")
}
