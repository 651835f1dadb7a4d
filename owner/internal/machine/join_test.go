package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// A JOIN whose reply was lost is known again by its lease.
func TestJoin_ReplyLost(t *testing.T) {
	r := newRig(t)
	r.hold[Join] = true
	r.settle()
	c := r.commitOf(Join)
	if _, err := r.store.commit("JOIN", c.Txn); err != nil {
		t.Fatal(err)
	}
	r.uncertain(c)
	r.watch()
	if got := take[Joined](r).Created; got != 3 {
		t.Errorf("joined under revision %d, want 3", got)
	}
	r.live(time.Second)
	r.noCommit(Join, "it is a member already")
}

// Before a node takes a new lease it revokes each that it gave up: what is under one would otherwise
// look like another's.
func TestJoin_RevokesBeforeItTakesANewLease(t *testing.T) {
	r := joined(t)
	r.put(cas.Delete(r.keys.Member("a")))
	for range 3 {
		rv := take[Revoke](r)
		if rv.Lease != 1 {
			t.Fatalf("revokes lease %d, want 1", rv.Lease)
		}
		none[GrantLease](r, "the old lease may live")
		r.step(Revoked{Lease: 1, Err: cas.ErrUncertain})
		none[GrantLease](r, "the old lease may live")
		r.pass(mostRetry)
	}
	r.settle()
	take[Joined](r)
	if r.m.Lease() == 1 || r.store.leases[1] != nil {
		t.Errorf("lease %d, and the old one lives: %v", r.m.Lease(), r.store.leases[1] != nil)
	}
}

// An id that another live member has is waited for, for two TTLs, then it is an error.
func TestJoin_IDTaken(t *testing.T) {
	r, la := taken(t)
	r.live(2*ttl - time.Second)
	none[Exit](r, "too early")
	none[Revoke](r, "only Takeover revokes")
	r.live(2 * time.Second)
	e := take[Exit](r)
	taken, ok := errors.AsType[*Taken](e.Err)
	if !ok || taken.Other.ID != "a" {
		t.Errorf("exits with %v, want Taken", e.Err)
	}
	if r.store.leases[la] == nil {
		t.Error("the other's lease was revoked")
	}
}

// The wait for another's record may have gone by in a pause or an outage. Only what the store says now counts.
func TestJoin_IDTakenIsWhatTheStoreSays(t *testing.T) {
	r, la := taken(t)
	r.deaf = true
	_ = r.store.revoke("expired", la)
	r.now += time.Hour // a pause
	r.pass(time.Second)
	none[Exit](r, "the view is an hour old")
	r.deaf = false
	r.settle()
	r.live(time.Second)
	take[Joined](r)
}

// Takeover revokes a predecessor's lease, and no second one: otherwise two would evict each other for ever.
func TestJoin_TakeoverOnce(t *testing.T) {
	r, la := taken(t, takeover)
	if got := take[Revoke](r).Lease; got != la {
		t.Fatalf("revokes lease %d, want %d", got, la)
	}
	r.step(Revoked{Lease: la, Err: cas.ErrUncertain})
	r.pass(retryAfter)
	if got := take[Revoke](r).Lease; got != la {
		t.Fatalf("revokes lease %d, want %d again: its first answer was lost", got, la)
	}
	_ = r.store.revoke("revoked", la)
	r.deaf = true
	r.step(Revoked{Lease: la})
	none[Revoke](r, "it is done; the view will say so")
	// Another takes the id first.
	r.deaf = false
	lc := r.store.grant(r.now, time.Hour).ID
	r.record("a", lc, false)
	r.live(3 * ttl)
	none[Revoke](r, "a second lease")
	if _, ok := errors.AsType[*Taken](take[Exit](r).Err); !ok || r.store.leases[lc] == nil {
		t.Error("it did not yield to the second")
	}
}

// ... also if the answer about the first was lost.
func TestJoin_TakeoverOnceThoughUncertain(t *testing.T) {
	r, la := taken(t, takeover)
	r.step(Revoked{Lease: take[Revoke](r).Lease, Err: cas.ErrUncertain})
	_ = r.store.revoke("revoked", la)
	lc := r.store.grant(r.now, time.Hour).ID
	r.record("a", lc, false)
	r.live(ttl)
	if r.store.leases[lc] == nil {
		t.Error("it revoked a second lease")
	}
}

// A process that was evicted never revokes: it waits, then ends with Taken.
func TestJoin_EvictedNeverRevokes(t *testing.T) {
	r := joined(t, takeover)
	_ = r.store.revoke("revoked", 1)
	lb := r.store.grant(r.now, time.Hour).ID
	r.record("a", lb, false)
	r.live(3 * ttl)
	if r.store.leases[lb] == nil {
		t.Error("it evicted its successor")
	}
	if _, ok := errors.AsType[*Taken](take[Exit](r).Err); !ok {
		t.Error("it did not yield")
	}
}

// Bad configs in the store end the node before it joins, and never panic.
func TestJoin_ConfigMismatch(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		want  func(error) bool
	}{
		"shards":     {`{"format":1,"id":"x","shards":8,"hash":"xxh64"}`, isMismatch("shards")},
		"hash":       {`{"format":1,"id":"x","shards":4,"hash":"murmur2"}`, isMismatch("hash")},
		"format":     {`{"format":99}`, isMismatch("format")},
		"unreadable": {`nonsense`, isUnusable},
		"lineage":    {`{"format":1,"id":"x","shards":4,"hash":"xxh64","lineage":32768}`, isUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.drop()
			r.put(cas.Put(r.keys.Config(), []byte(test.value)))
			if e := take[Exit](r); !test.want(e.Err) {
				t.Errorf("exits with %v", e.Err)
			}
		})
	}
}

func isMismatch(field string) func(error) bool {
	return func(err error) bool {
		m, ok := errors.AsType[*Mismatch](err)
		return ok && m.Field == field
	}
}

func isUnusable(err error) bool {
	_, ok := errors.AsType[*Unusable](err)
	return ok
}

// A config that is deleted under a living group is not made anew: every fence would refuse the new group's id.
func TestJoin_ConfigDeleted(t *testing.T) {
	r := joined(t)
	e := r.serving()
	r.put(cas.Delete(r.keys.Config()))
	if take[Lose](r).Epoch != e || !isUnusable(take[Exit](r).Err) {
		t.Error("the node went on")
	}
}

// Two nodes that begin at once agree on one config, also when other programs write to the store meanwhile: the
// revision that the loser has to see then shows only if the watch is asked.
func TestJoin_ConfigRace(t *testing.T) {
	r := newRig(t)
	c := r.commitOf(Configure)
	r.deaf = true
	r.put(cas.Put(r.keys.Config(), layout.Encode(layout.Config{Format: 1, ID: "theirs", Shards: 4, Hash: "xxh64"})))
	r.store.foreign()
	r.answer(c)
	r.deaf = false
	r.watch()
	r.live(time.Second)
	take[Joined](r)
	if got := r.m.View().Config.ID; got != "theirs" {
		t.Errorf("group id %q, want theirs", got)
	}
}

// The record says what the operator's drain key and the user's Leave say, until it does.
func TestUpdate_UntilTheRecordSaysIt(t *testing.T) {
	r := joined(t)
	r.hold[Update] = true
	r.put(cas.Put(r.keys.Drain("a"), layout.Encode(layout.Drain{Format: 1})))
	for range 3 {
		r.uncertain(r.commitOf(Update))
		r.pass(mostRetry)
	}
	r.hold[Update] = false
	r.settle()
	if !r.m.View().Members["a"].Draining {
		t.Error("the record does not say that it drains")
	}
	r.put(cas.Delete(r.keys.Drain("a")))
	r.settle()
	if r.m.View().Members["a"].Draining {
		t.Error("the record says that it drains still")
	}
}

// A member record under no lease is nobody's: an operator put it, and it would never go. It plans nothing, is given
// nothing, and a node of that id joins in its place.
func TestJoin_OverARecordWithoutLease(t *testing.T) {
	r := newRig(t)
	corpse := func(id string) cas.Op {
		m := layout.Member{Format: 1, Member: shard.Member{ID: id, Weight: 1}}
		return cas.Put(r.keys.Member(id), layout.Encode(m))
	}
	r.put(corpse("a"))
	r.put(corpse("0-older"))
	r.settle()
	take[Joined](r)
	if !r.m.Planning() {
		t.Error("the corpse plans")
	}
	r.live(5 * time.Second)
	for _, c := range take[MakePlan](r).In.Members {
		if c.ID != "a" {
			t.Errorf("%s is to be given shards", c.ID)
		}
	}
}

// A config that is replaced by another group's would give tokens that every fence refuses.
func TestConfig_GroupIDChanged(t *testing.T) {
	r := joined(t)
	c := r.m.View().Config.Config
	c.ID = "another"
	r.put(cas.Put(r.keys.Config(), layout.Encode(c)))
	if _, ok := errors.AsType[*Unusable](take[Exit](r).Err); !ok {
		t.Error("the node goes on under another group id")
	}
}

// Revisions end where an epoch's bits do.
func TestI2_RevisionsRunOut(t *testing.T) {
	r := joined(t)
	r.step(Watched{Change: cas.Change{Rev: shard.MaxRevision + 1}})
	if _, ok := errors.AsType[*Unusable](take[Exit](r).Err); !ok {
		t.Error("the node goes on past the highest revision")
	}
}
