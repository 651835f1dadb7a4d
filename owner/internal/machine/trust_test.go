package machine

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// I3: trust counts from the moment a renewal was sent, with the TTL that the store granted.
func TestI3_TrustCountsFromTheSend(t *testing.T) {
	r := joined(t)
	r.pass(ttl / 3)
	e := take[Renew](r)
	sent := r.now
	r.now += time.Second
	l, err := r.store.renew(r.now, e.Lease)
	l.TTL = 20 * time.Second
	r.step(Renewed{Sent: sent, Lease: l, Err: err})
	r.settle()
	if got, want := take[Trust](r).Until, sent+18*time.Second; got != want {
		t.Errorf("trust until %v, want %v", got, want)
	}
}

// I3: the margin is a tenth of the TTL, at least 200 ms.
func TestI3_Margin(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		2 * time.Second: 200 * time.Millisecond, time.Second: 200 * time.Millisecond, time.Minute: 6 * time.Second,
	} {
		if got := Margin(ttl); got != want {
			t.Errorf("Margin(%v) = %v, want %v", ttl, got, want)
		}
	}
}

// I3: a node that can renew but not see is not fit to own. A renewal counts once the view is at its revision; the
// watch is asked, since nothing of the group's may have happened there.
func TestI3_RenewalCountsOnceSeen(t *testing.T) {
	r := joined(t)
	epoch := r.serving()
	r.deaf = true
	r.store.foreign()
	r.live(ttl / 3)
	none[Trust](r, "the view has not reached the renewal")
	r.deaf = false
	r.live(retryAfter)
	take[Trust](r)
	r.deaf = true
	for range 3 {
		r.store.foreign()
		r.live(ttl / 3)
	}
	if e := take[Lose](r); e.Epoch != epoch {
		t.Errorf("lost epoch %v, want %v", e.Epoch, epoch)
	}
}

// Case 5, I3: an answer that comes after trust has ended revives no tenure. If the lease was kept after all, the
// shard is claimed anew, once the old handler has returned.
func TestCase_etcd19091_LateRenewalRevivesNothing(t *testing.T) {
	r := joined(t)
	epoch := r.serving()
	r.pass(ttl / 3)
	e := take[Renew](r)
	sent := r.now
	l, err := r.store.renew(r.now, e.Lease)
	// Nothing ran meanwhile, not even a Tick. The trust from before is over; what this renewal gives would not be.
	r.now += trust0 - ttl/3 + time.Second
	r.step(Renewed{Sent: sent, Lease: l, Err: err})
	if got := take[Lose](r).Epoch; got != epoch {
		t.Fatalf("lost epoch %v, want %v", got, epoch)
	}
	r.settle()
	none[Start](r, "the old handler runs")
	r.noCommit(Reclaim, "the old handler runs")
	r.finish(epoch)
	r.settle()
	if got := take[Start](r).Token.Epoch; got <= epoch {
		t.Errorf("starts under epoch %v after %v", got, epoch)
	}
}

// Case 10: a renewal whose reply is lost costs nothing: the node trusts until trust really ends, and tries again at once.
func TestCase_dynamolock280_RenewalReplyLost(t *testing.T) {
	r := joined(t)
	r.serving()
	r.lostRenewals(trust0 - time.Second)
	none[Lose](r, "trust has not ended")
	r.settle() // one gets through
	r.live(trust0)
	none[Lose](r, "it was renewed")
	for r.m.member.renewing || r.m.Next() == 0 {
		r.live(time.Second)
	}
	r.lostRenewals(trust0 + time.Second)
	take[Lose](r)
}

// Case 2: a claim counts only under the lease that the node holds now.
func TestCase_etcd19597_ClaimUnderAnotherLease(t *testing.T) {
	r := joined(t)
	stale := r.store.grant(r.now, time.Hour).ID
	r.claim(stale, 0)
	r.settle()
	none[Start](r, "the lease is another's")
	r.put(cas.Delete(r.keys.Member("a"))) // and one that was given up
	r.claim(1, 1)
	none[Start](r, "the lease was given up")
}

// Case 4: the claim gone is loss, whatever renewals say.
func TestCase_etcd15247_ClaimGone(t *testing.T) {
	r := joined(t)
	epoch := r.serving()
	r.put(cas.Delete(r.keys.Claim(0)))
	if got := take[Lose](r).Epoch; got != epoch {
		t.Errorf("lost epoch %v, want %v", got, epoch)
	}
	r.live(ttl)
	if r.m.Lease() != 1 {
		t.Error("the lease was given up: it is healthy")
	}
}

// Case 4: a claim that was written anew under the same lease is another tenure.
func TestCase_etcd15247_ClaimReplaced(t *testing.T) {
	r := joined(t)
	epoch := r.serving()
	r.claim(1, 0)
	if got := take[Lose](r).Epoch; got != epoch {
		t.Fatalf("lost epoch %v, want %v", got, epoch)
	}
	none[Start](r, "the old handler runs")
	r.finish(epoch)
	if got := take[Start](r).Token.Epoch; got <= epoch {
		t.Errorf("starts under epoch %v after %v", got, epoch)
	}
}

// Case 4, loss: the member record gone while the lease lives. All tenures end, the lease is revoked with trust at zero, and
// the node joins again under a new one.
func TestCase_etcd15247_MemberRecordGone(t *testing.T) {
	r := joined(t)
	epoch := r.serving()
	r.put(cas.Delete(r.keys.Member("a")))
	var order []string
	for _, e := range r.pending {
		switch e := e.(type) {
		case Lose:
			order = append(order, "lose")
		case Trust:
			if e.Until == 0 {
				order = append(order, "no trust")
			}
		case Revoke:
			order = append(order, "revoke")
		}
	}
	if len(order) != 3 || order[2] != "revoke" {
		t.Fatalf("got %v, want the revoke last", order)
	}
	r.drop()
	r.step(Revoked{Lease: 1, Err: r.store.revoke("revoked", 1)})
	r.watch()
	r.settle()
	take[Joined](r)
	none[Start](r, "nothing was granted")
	_ = epoch
}

// Loss: the lease is gone. The node joins again, under a new one, and revokes nothing.
func TestLoss_LeaseGone(t *testing.T) {
	r := joined(t)
	r.serving()
	r.deaf = true
	_ = r.store.revoke("expired", 1)
	r.pass(ttl / 3)
	e := take[Renew](r)
	r.answer(e)
	take[Lose](r)
	if got := take[Trust](r).Until; got != 0 {
		t.Errorf("trust until %v, want none", got)
	}
	none[Revoke](r, "the lease is gone")
	r.deaf = false
	r.watch()
	r.settle()
	take[Joined](r)
}

// An answer about a lease that was given up since says nothing of the present one.
func TestLoss_AnswerAboutAFormerLease(t *testing.T) {
	r := joined(t)
	r.pass(ttl / 3)
	old := take[Renew](r)
	r.put(cas.Delete(r.keys.Member("a")))
	r.settle()
	take[Joined](r)
	lease, until := r.m.Lease(), r.m.member.trust
	r.step(Renewed{Sent: r.now, Lease: cas.Lease{ID: old.Lease, TTL: time.Hour}})
	r.step(Renewed{Sent: r.now, Lease: cas.Lease{ID: old.Lease}, Err: cas.ErrLeaseNotFound})
	if r.m.Lease() != lease || r.m.member.trust != until {
		t.Errorf("lease %d, trust until %v; want %d, %v", r.m.Lease(), r.m.member.trust, lease, until)
	}
}

// A transaction under the own lease that finds it gone says so as well as a renewal does.
func TestLoss_LeaseGoneInATransaction(t *testing.T) {
	r := joined(t)
	r.hold[Update] = true
	r.serving()
	r.deaf = true
	r.put(cas.Put(r.keys.Drain("a"), []byte(`{"format":1}`)))
	r.deaf = false
	r.watch()
	c := r.commitOf(Update)
	r.step(Committed{ID: c.ID, Err: cas.ErrLeaseNotFound})
	take[Lose](r)
}
