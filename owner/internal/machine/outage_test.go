package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

func isRestored(err error) bool {
	_, ok := errors.AsType[*Restored](err)
	return ok
}

// Case 6: a store whose revisions go back was restored from a backup: every epoch from there on could be below one that
// a fence has seen. The node's tenures end, and so does the node.
func TestCase_etcd16028_RevisionsGoBack(t *testing.T) {
	for name, back := range map[string]func(r *rig){
		"in a commit's reply": func(r *rig) {
			r.hold[Update] = true
			r.put(cas.Put(r.keys.Drain("a"), []byte(`{"format":1}`)))
			r.step(Committed{ID: r.commitOf(Update).ID, Rev: 3})
		},
		"in a conflict": func(r *rig) {
			r.hold[Update] = true
			r.put(cas.Put(r.keys.Drain("a"), []byte(`{"format":1}`)))
			r.step(Committed{ID: r.commitOf(Update).ID, Err: &cas.ConflictError{Rev: 3}})
		},
		"in a list": func(r *rig) {
			snap := r.store.list()
			snap.Rev = 3
			r.step(Listed{View: layout.Load(r.keys, 4, snap)})
		},
		"in another cluster": func(r *rig) {
			snap := r.store.list()
			snap.Rev, snap.Cluster = 100, 2
			r.step(Listed{View: layout.Load(r.keys, 4, snap)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := joined(t)
			e := r.serving()
			back(r)
			if got := take[Lose](r).Epoch; got != e {
				t.Errorf("lost epoch %v, want %v", got, e)
			}
			if err := r.exits(); !isRestored(err) {
				t.Errorf("exits with %v", err)
			}
			if next := r.m.Next(); next != 0 {
				t.Errorf("wants a tick at %v", next)
			}
			r.step(Tick{})
			if len(r.pending) > 0 {
				t.Errorf("goes on: %s", r.tell())
			}
		})
	}
}

// Replies may overtake each other: one that shows an older revision than the newest known, but was asked for before
// that, is no restore.
func TestCase_etcd16028_OvertakenReplyIsNoRestore(t *testing.T) {
	r := joined(t)
	r.hold[Update] = true
	r.put(cas.Put(r.keys.Drain("a"), []byte(`{"format":1}`)))
	c := r.commitOf(Update)
	rev, err := r.store.commit("UPDATE", c.Txn)
	for range 5 {
		r.other("b", false)
	}
	r.step(Committed{ID: c.ID, Rev: rev, Err: err})
	none[Exit](r, "nothing went back")
}

// I2: a lineage that is lowered would put every new epoch below those in use.
func TestI2_LineageIsNeverLowered(t *testing.T) {
	r := joined(t)
	e := r.serving()
	r.raise(40)
	r.step(Drained{Shard: 0, Epoch: e})
	r.step(Returned{Shard: 0, Epoch: e})
	r.settle()
	e = take[Start](r).Token.Epoch
	r.raise(39)
	if got := take[Lose](r).Epoch; got != e {
		t.Errorf("lost epoch %v, want %v", got, e)
	}
	if err := r.exits(); !isUnusable(err) {
		t.Errorf("exits with %v", err)
	}
}

// A full store: renewals go on, so tenures go on, and no drain is begun that could not be finished.
func TestNoSpace_NoDrainIsBegun(t *testing.T) {
	r := joined(t)
	r.hold[Update] = true
	r.serving()
	lb := r.other("b", false)
	r.store.full = true
	r.deaf = true
	r.store.full = false
	r.put(cas.Put(r.keys.Drain("a"), []byte(`{"format":1}`)))
	r.order(lb, "b", false, 0)
	r.store.full = true
	r.deaf = false
	r.watch()
	r.hold[Update] = false
	r.settle() // its UPDATE is refused: the node knows
	r.live(drainPrepare)
	none[Close](r, "the transfer could not be written")
	r.live(2 * time.Minute)
	none[Close](r, "the transfer could not be written")
	none[Lose](r, "renewals go on")
	r.store.full = false
	r.live(2*fullAgain + time.Second)
	take[Close](r)
}

// Commits with no definite answer are tried again after a pause, never at once.
func TestRefused_NotTriedAtOnce(t *testing.T) {
	for name, err := range map[string]error{
		"uncertain": cas.ErrUncertain, "unavailable": cas.ErrUnavailable, "foreign": errTest,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.commitOf(Configure)
			r.step(Committed{ID: c.ID, Err: err})
			r.noCommit(Configure, "at once")
			r.pass(retryAfter)
			r.commitOf(Configure)
		})
	}
}

// A node that has not written for a while asks first whether it could: after the gate is closed it is too late.
func TestNoSpace_AsksBeforeItCloses(t *testing.T) {
	r := joined(t)
	r.serving()
	lb := r.other("b", false)
	r.live(time.Minute)
	r.order(lb, "b", true, 0)
	r.store.full = true
	r.settle()
	none[Close](r, "the transfer could not be written")
	r.live(time.Minute)
	none[Close](r, "the store is full still")
	r.store.full = false
	r.live(time.Minute)
	take[Close](r)
}

// A refusal counts for more than a put that was applied just before.
func TestNoSpace_RefusalOutweighsAPut(t *testing.T) {
	r := joined(t)
	r.serving()
	lb := r.other("b", false)
	r.put(cas.Put(r.keys.Drain("a"), []byte(`{"format":1}`)))
	r.settle() // its UPDATE is applied
	r.hold[Update] = true
	r.put(cas.Delete(r.keys.Drain("a")))
	r.step(Committed{ID: r.commitOf(Update).ID, Err: cas.ErrNoSpace})
	r.order(lb, "b", true, 0)
	r.settle()
	none[Close](r, "the transfer could not be written")
}

// A store that refuses the permission to join is no store to wait for. A member is patient: its tenures go on meanwhile.
func TestJoin_Denied(t *testing.T) {
	r := newRig(t)
	r.step(Committed{ID: r.commitOf(Configure).ID, Err: cas.ErrDenied})
	if !errors.Is(take[Exit](r).Err, cas.ErrDenied) {
		t.Error("the refusal is not told")
	}
	r = joined(t)
	r.hold[Update] = true
	r.put(cas.Put(r.keys.Drain("a"), []byte(`{"format":1}`)))
	r.step(Committed{ID: r.commitOf(Update).ID, Err: cas.ErrDenied})
	none[Exit](r, "it is a member")
}
