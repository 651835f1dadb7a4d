package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
)

var leaseTests = []test{
	{name: "TestCase_etcd19597 a dead lease in a batch", run: deadLease},
	{name: "put without a lease detaches", run: detach},
	{name: "put under another lease attaches anew", run: attachAnew},
	{name: "revocation is one change", run: revokeOneChange},
	{name: "revoke twice", run: revokeTwice},
	{name: "renewal of a dead lease", run: renewDead},
	{name: "expiry is one change and not early", run: expiry},
	{name: "renewal gives the full TTL again", run: renewExtends},
	{name: "TTL", run: ttl},
}

// deadLease is what row 2 of the cases asks of a store (etcd#19597): a grant under a dead
// lease fails whole.
func deadLease(t *testing.T, h Harness) {
	s := h.Store
	live, dead := grant(t, s, h.MinTTL*10), grant(t, s, h.MinTTL*10)
	if err := s.Revoke(t.Context(), dead.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	before := put(t, s, cas.Put("old", []byte("old")))
	_, err := s.Commit(t.Context(), cas.Txn{
		If: []cas.Cond{cas.Absent("claim")},
		Then: []cas.Op{
			cas.Put("plain", nil), cas.PutLeased("live", nil, live.ID), cas.PutLeased("claim", nil, dead.ID), cas.Delete("old"),
		},
	})
	refused(t, "batch with a dead lease", err, cas.ErrLeaseNotFound)
	snap := list(t, s, "")
	if got := keys(snap.Entries); got != "old" || snap.Rev != before {
		t.Errorf("after a batch with a dead lease there are %q at revision %d, want \"old\" at %d", got, snap.Rev, before)
	}
	_, err = s.Commit(t.Context(), cas.Txn{If: []cas.Cond{cas.Absent("old")}, Then: []cas.Op{cas.PutLeased("claim", nil, dead.ID)}})
	if cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("a failed condition and a dead lease: got error %v", err)
	}
}

func detach(t *testing.T, h Harness) {
	s := h.Store
	l := grant(t, s, h.MinTTL*10)
	put(t, s, cas.PutLeased("kept", []byte("1"), l.ID), cas.PutLeased("goes", nil, l.ID))
	put(t, s, cas.Put("kept", []byte("2")))
	if e := get(t, s, "kept"); e.Lease != 0 {
		t.Errorf("after a put without a lease the key is under lease %x", e.Lease)
	}
	if err := s.Revoke(t.Context(), l.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if got := keys(list(t, s, "").Entries); got != "kept" {
		t.Errorf("after the revocation there are %q, want \"kept\"", got)
	}
}

func attachAnew(t *testing.T, h Harness) {
	s := h.Store
	a, b := grant(t, s, h.MinTTL*10), grant(t, s, h.MinTTL*10)
	put(t, s, cas.PutLeased("k", nil, a.ID), cas.PutLeased("ka", nil, a.ID))
	put(t, s, cas.PutLeased("k", nil, b.ID))
	put(t, s, cas.Delete("ka"))
	put(t, s, cas.Put("ka", nil))
	if err := s.Revoke(t.Context(), a.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if got := keys(list(t, s, "").Entries); got != "k ka" {
		t.Errorf("after the former lease has ended there are %q, want \"k ka\"", got)
	}
	if err := s.Revoke(t.Context(), b.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if got := keys(list(t, s, "").Entries); got != "ka" {
		t.Errorf("after the lease has ended there are %q, want \"ka\"", got)
	}
}

// populate puts n keys under l, in as many transactions as it takes, and returns them.
func populate(t *testing.T, s cas.Store, l cas.LeaseID, n int) (names []string, rev int64) {
	t.Helper()
	var ops []cas.Op
	for i := range n {
		names = append(names, fmt.Sprintf("dir/%04d", i))
		ops = append(ops, cas.PutLeased(names[i], []byte("v"), l))
	}
	for batch := range slices.Chunk(ops, cas.MaxOps) {
		rev = put(t, s, batch...)
	}
	return names, rev
}

// deletions checks that c deletes just the keys in names.
func deletions(t *testing.T, c cas.Change, names []string) {
	t.Helper()
	want := make([]cas.Event, 0, len(names))
	for _, key := range names {
		want = append(want, cas.Event{Entry: cas.Entry{Key: key, Rev: c.Rev}, Deleted: true})
	}
	got := slices.Clone(c.Events)
	slices.SortFunc(got, func(a, b cas.Event) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deletions in one change (-want +got):\n%s", diff)
	}
}

func revokeOneChange(t *testing.T, h Harness) {
	s := h.Store
	l := grant(t, s, h.MinTTL*10)
	put(t, s, cas.Put("dir/other", nil))
	names, rev := populate(t, s, l.ID, 300)
	changes := h.Other.Watch(t.Context(), "dir/", rev)
	if err := s.Revoke(t.Context(), l.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	c := events(t, changes)
	if c.Rev != rev+1 {
		t.Errorf("revocation at revision %d, want %d", c.Rev, rev+1)
	}
	deletions(t, c, names)
	if got := keys(list(t, s, "").Entries); got != "dir/other" {
		t.Errorf("there are %q, want \"dir/other\"", got)
	}
}

func revokeTwice(t *testing.T, h Harness) {
	s := h.Store
	l := grant(t, s, h.MinTTL*10)
	if err := s.Revoke(t.Context(), l.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	refused(t, "second revocation", s.Revoke(t.Context(), l.ID), cas.ErrLeaseNotFound)
	refused(t, "revocation of a lease that never was", s.Revoke(t.Context(), l.ID+12345), cas.ErrLeaseNotFound)
}

func renewDead(t *testing.T, h Harness) {
	l := grant(t, h.Store, h.MinTTL*10)
	if err := h.Other.Revoke(t.Context(), l.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	_, err := h.Store.Renew(t.Context(), l.ID)
	refused(t, "renewal of a revoked lease", err, cas.ErrLeaseNotFound)
}

func expiry(t *testing.T, h Harness) {
	s := h.Store
	sent := s.Now()
	l := grant(t, s, h.MinTTL)
	names, rev := populate(t, s, l.ID, 300)
	changes := h.Other.Watch(t.Context(), "", rev)
	c := events(t, changes)
	took := s.Now() - sent
	deletions(t, c, names)
	// The lease began at some time after sent, so only the first bound is sharp.
	if took < l.TTL {
		t.Errorf("a lease of %v expired %v after its grant was sent", l.TTL, took)
	}
	if most := l.TTL + h.Late + time.Second; took > most {
		t.Errorf("a lease of %v was still there after %v, want at most %v", l.TTL, took, most)
	}
	_, err := s.Renew(t.Context(), l.ID)
	refused(t, "renewal of an expired lease", err, cas.ErrLeaseNotFound)
	_, err = s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.PutLeased("k", nil, l.ID)}})
	refused(t, "put under an expired lease", err, cas.ErrLeaseNotFound)
}

func renewExtends(t *testing.T, h Harness) {
	s := h.Store
	l := grant(t, s, h.MinTTL)
	rev := put(t, s, cas.PutLeased("k", nil, l.ID))
	changes := s.Watch(t.Context(), "k", rev)
	var sent time.Duration
	for range 4 {
		pass(l.TTL / 2)
		sent = s.Now()
		renewed, err := s.Renew(t.Context(), l.ID)
		if err != nil {
			t.Fatalf("renew: %v", err)
		}
		if renewed.ID != l.ID || renewed.TTL != l.TTL || renewed.Rev < rev {
			t.Errorf("renewal returned %+v, for lease %+v at revision %d", renewed, l, rev)
		}
	}
	events(t, changes)
	if lived := s.Now() - sent; lived < l.TTL {
		t.Errorf("the lease ended %v after its last renewal was sent, its TTL is %v", lived, l.TTL)
	}
}

func ttl(t *testing.T, h Harness) {
	s := h.Store
	for _, asked := range []time.Duration{time.Millisecond, h.MinTTL, h.MinTTL + 1, time.Hour} {
		l := grant(t, s, asked)
		if l.TTL < asked || l.TTL < h.MinTTL || l.ID == 0 {
			t.Errorf("asked for a lease of %v, got %+v", asked, l)
		}
	}
	for _, asked := range []time.Duration{0, -time.Second} {
		_, err := s.Grant(t.Context(), asked)
		refused(t, fmt.Sprintf("lease of %v", asked), err, cas.ErrInvalid)
	}
	if a, b := grant(t, s, time.Hour), grant(t, h.Other, time.Hour); a.ID == b.ID {
		t.Errorf("two leases have the id %x", a.ID)
	}
}
