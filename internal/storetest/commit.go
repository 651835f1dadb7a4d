package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
)

var commitTests = []test{
	{name: "condition of each attribute", run: conditions},
	{name: "conflict carries the current entries", run: conflictEntries},
	{name: "one revision for a transaction", run: oneRevision},
	{name: "created changes when a key is deleted and made anew", run: createdAnew},
	{name: "a transaction that changes nothing has no revision", run: noChange},
	{name: "too many operations", run: tooMany},
	{name: "duplicate key", run: duplicateKey},
	{name: "malformed transaction", run: malformed},
	{name: "values up to the size limit", run: sizeLimit},
	{name: "of concurrent commits on one key one wins", run: oneWins},
	{name: "stored values are the store's own", run: ownValues},
}

func conditions(t *testing.T, h Harness) {
	s := h.Store
	lease := grant(t, s, h.MinTTL*10)
	made := put(t, s, cas.PutLeased("k", []byte("1"), lease.ID))
	changed := put(t, s, cas.PutLeased("k", []byte("2"), lease.ID))
	free := put(t, s, cas.Put("free", nil))

	for _, c := range []struct {
		name  string
		cond  cas.Cond
		holds bool
	}{
		{"revision of the last change", cas.AtRev("k", changed), true},
		{"revision of an earlier change", cas.AtRev("k", made), false},
		{"revision 0 of a key that is there", cas.AtRev("k", 0), false},
		{"revision 0 of an absent key", cas.AtRev("none", 0), true},
		{"some revision of an absent key", cas.AtRev("none", changed), false},
		{"creation", cas.CreatedAt("k", made), true},
		{"creation at a later change", cas.CreatedAt("k", changed), false},
		{"absence of an absent key", cas.Absent("none"), true},
		{"absence of a key that is there", cas.Absent("k"), false},
		{"lease", cas.LeasedTo("k", lease.ID), true},
		{"another lease", cas.LeasedTo("k", lease.ID+1), false},
		{"no lease, of a leased key", cas.LeasedTo("k", 0), false},
		{"no lease, of a key without", cas.LeasedTo("free", 0), true},
		{"no lease, of an absent key", cas.LeasedTo("none", 0), true},
		{"creation of a key without a lease", cas.CreatedAt("free", free), true},
	} {
		mark := "mark/" + strings.ReplaceAll(c.name, " ", "-")
		_, err := s.Commit(t.Context(), cas.Txn{If: []cas.Cond{c.cond}, Then: []cas.Op{cas.Put(mark, nil)}})
		var conflict *cas.ConflictError
		if c.holds && err != nil || !c.holds && !errors.As(err, &conflict) {
			t.Errorf("%s: got error %v, holds should be %v", c.name, err, c.holds)
		}
		if applied := get(t, s, mark).Rev != 0; applied != c.holds {
			t.Errorf("%s: applied %v, want %v", c.name, applied, c.holds)
		}
	}

	// All of several conditions must hold.
	_, err := s.Commit(t.Context(), cas.Txn{
		If:   []cas.Cond{cas.AtRev("k", changed), cas.CreatedAt("k", made), cas.Absent("free")},
		Then: []cas.Op{cas.Delete("k")},
	})
	if cas.OutcomeOf(err) != cas.NotApplied || get(t, s, "k").Rev != changed {
		t.Errorf("one of three conditions fails: got error %v, and k is %v", err, get(t, s, "k"))
	}
}

func conflictEntries(t *testing.T, h Harness) {
	s := h.Store
	lease := grant(t, s, h.MinTTL*10)
	a := put(t, s, cas.PutLeased("a", []byte("va"), lease.ID))
	b := put(t, s, cas.Put("b", []byte("vb")))
	b2 := put(t, s, cas.Put("b", []byte("vb2")))

	_, err := s.Commit(t.Context(), cas.Txn{
		If: []cas.Cond{
			cas.AtRev("b", b), cas.Absent("none"), cas.LeasedTo("a", lease.ID), cas.CreatedAt("b", b),
		},
		Then: []cas.Op{cas.Put("b", nil), cas.Delete("a")},
	})
	var got *cas.ConflictError
	if !errors.As(err, &got) {
		t.Fatalf("got error %v, want a conflict", err)
	}
	want := &cas.ConflictError{
		Rev: b2,
		Current: []cas.Entry{
			{Key: "b", Value: []byte("vb2"), Rev: b2, Created: b},
			{Key: "none"},
			{Key: "a", Value: []byte("va"), Rev: a, Created: a, Lease: lease.ID},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conflict (-want +got):\n%s", diff)
	}
	if cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got outcome %q", cas.OutcomeOf(err))
	}
}

func oneRevision(t *testing.T, h Harness) {
	s := h.Store
	first := put(t, s, cas.Put("a", []byte("1")), cas.Put("gone", nil))
	second := put(t, s, cas.Put("a", []byte("2")), cas.Put("b", []byte("2")), cas.Delete("gone"))
	if second != first+1 {
		t.Errorf("two transactions had revisions %d and %d", first, second)
	}
	want := []cas.Entry{
		{Key: "a", Value: []byte("2"), Rev: second, Created: first},
		{Key: "b", Value: []byte("2"), Rev: second, Created: second},
	}
	snap := list(t, s, "")
	if diff := cmp.Diff(want, snap.Entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if snap.Rev != second {
		t.Errorf("list at revision %d, want %d", snap.Rev, second)
	}
	if got := get(t, h.Other, "a"); !cmp.Equal(got, want[0]) {
		t.Errorf("another client sees %v, want %v", got, want[0])
	}
}

func createdAnew(t *testing.T, h Harness) {
	s := h.Store
	first := put(t, s, cas.Put("k", nil))
	put(t, s, cas.Delete("k"))
	if e := get(t, s, "k"); !cmp.Equal(e, cas.Entry{Key: "k"}) {
		t.Errorf("a deleted key is %v", e)
	}
	anew := put(t, s, cas.Put("k", nil))
	if e := get(t, s, "k"); e.Created != anew || e.Rev != anew {
		t.Errorf("a key made anew at %d is %v", anew, e)
	}
	_, err := s.Commit(t.Context(), cas.Txn{If: []cas.Cond{cas.CreatedAt("k", first)}, Then: []cas.Op{cas.Delete("k")}})
	if cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("a condition on the former key: got error %v", err)
	}
}

func noChange(t *testing.T, h Harness) {
	s := h.Store
	rev := put(t, s, cas.Put("k", nil))
	if got := put(t, s, cas.Delete("none")); got != rev {
		t.Errorf("deleting an absent key: revision %d, want still %d", got, rev)
	}
	if got := commit(t, s, cas.Txn{If: []cas.Cond{cas.AtRev("k", rev)}}); got != rev {
		t.Errorf("a transaction without changes: revision %d, want still %d", got, rev)
	}
	if got := put(t, s, cas.Put("k", nil)); got != rev+1 {
		t.Errorf("the next change: revision %d, want %d", got, rev+1)
	}
}

func tooMany(t *testing.T, h Harness) {
	s := h.Store
	ops := make([]cas.Op, cas.MaxOps+1)
	conds := make([]cas.Cond, cas.MaxOps+1)
	for i := range ops {
		ops[i] = cas.Put(fmt.Sprintf("k%03d", i), nil)
		conds[i] = cas.Absent(fmt.Sprintf("k%03d", i))
	}
	_, err := s.Commit(t.Context(), cas.Txn{Then: ops})
	refused(t, "one change too many", err, cas.ErrInvalid)
	_, err = s.Commit(t.Context(), cas.Txn{If: conds, Then: ops[:1]})
	refused(t, "one condition too many", err, cas.ErrInvalid)
	if n := len(list(t, s, "k").Entries); n != 0 {
		t.Errorf("%d keys were put by transactions that were refused", n)
	}
	full := cas.Txn{If: conds[:cas.MaxOps], Then: ops[:cas.MaxOps]}
	commit(t, s, full)
	if n := len(list(t, s, "k").Entries); n != cas.MaxOps {
		t.Errorf("%d keys were put by the largest transaction, want %d", n, cas.MaxOps)
	}
	_, err = s.Commit(t.Context(), full)
	var conflict *cas.ConflictError
	if !errors.As(err, &conflict) || len(conflict.Current) != cas.MaxOps {
		t.Errorf("the largest transaction again: got error %v", err)
	}
}

func duplicateKey(t *testing.T, h Harness) {
	s := h.Store
	put(t, s, cas.Put("a", nil))
	pad := make([]cas.Op, 20)
	for i := range pad {
		pad[i] = cas.Put(fmt.Sprintf("pad%d", i), nil)
	}
	for name, ops := range map[string][]cas.Op{
		"two puts":             {cas.Put("k", nil), cas.Put("k", nil)},
		"put and delete":       {cas.Put("k", nil), cas.Delete("k")},
		"two deletes":          {cas.Delete("a"), cas.Delete("a")},
		"in a long list":       append(pad, cas.Put("pad3", nil)),
		"apart from the first": {cas.Put("x", nil), cas.Put("k", nil), cas.Put("k", []byte("2"))},
	} {
		_, err := s.Commit(t.Context(), cas.Txn{Then: ops})
		refused(t, name, err, cas.ErrInvalid)
	}
	if got := keys(list(t, s, "").Entries); got != "a" {
		t.Errorf("after transactions that were refused there are %q, want \"a\"", got)
	}
}

func malformed(t *testing.T, h Harness) {
	for name, txn := range map[string]cas.Txn{
		"zero condition":    {If: []cas.Cond{{}}, Then: []cas.Op{cas.Put("k", nil)}},
		"zero change":       {Then: []cas.Op{{}}},
		"unknown attribute": {If: []cas.Cond{{Key: "k", Attr: 77}}},
		"delete with value": {Then: []cas.Op{{Key: "k", Delete: true, Value: []byte("v")}}},
	} {
		_, err := h.Store.Commit(t.Context(), txn)
		refused(t, name, err, cas.ErrInvalid)
	}
	_, err := h.Store.Get(t.Context(), "")
	refused(t, "get of an empty key", err, cas.ErrInvalid)
	if n := len(list(t, h.Store, "").Entries); n != 0 {
		t.Errorf("%d keys are there", n)
	}
}

func sizeLimit(t *testing.T, h Harness) {
	const limit = 3 << 19 // 1.5 MiB
	s := h.Store
	large := make([]byte, limit-4<<10)
	large[len(large)-1] = 7
	put(t, s, cas.Put("large", large))
	if got := get(t, h.Other, "large"); !bytes.Equal(got.Value, large) {
		t.Errorf("got %d bytes back, want the %d that were put", len(got.Value), len(large))
	}
	for _, n := range []int{limit + 1, 2<<20 + 1, 5 << 20} {
		_, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("small", nil), cas.Put("too-large", make([]byte, n))}})
		refused(t, fmt.Sprintf("value of %d bytes", n), err, cas.ErrInvalid)
	}
	if got := keys(list(t, s, "").Entries); got != "large" {
		t.Errorf("after transactions that were refused there are %q, want \"large\"", got)
	}
	_, err := s.Commit(t.Context(), cas.Txn{If: []cas.Cond{cas.Absent("large")}})
	var conflict *cas.ConflictError
	if !errors.As(err, &conflict) || len(conflict.Current[0].Value) != len(large) {
		t.Errorf("conflict on a large value: got error %v", err)
	}
}

func oneWins(t *testing.T, h Harness) {
	const workers, each = 8, 25
	var wg sync.WaitGroup
	for i := range workers {
		s := h.Store
		if i%2 == 1 {
			s = h.Other
		}
		wg.Go(func() {
			for range each {
				if err := increment(t, s); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := len(get(t, h.Store, "n").Value); got != workers*each {
		t.Errorf("counted %d, want %d", got, workers*each)
	}
}

// increment makes the value of key n one byte longer, by comparing and swapping.
func increment(t *testing.T, s cas.Store) error {
	e, err := s.Get(t.Context(), "n")
	for err == nil {
		_, err = s.Commit(t.Context(), cas.Txn{
			If:   []cas.Cond{cas.AtRev("n", e.Rev)},
			Then: []cas.Op{cas.Put("n", make([]byte, len(e.Value)+1))},
		})
		if err == nil {
			return nil
		}
		var conflict *cas.ConflictError
		if errors.As(err, &conflict) {
			e, err = conflict.Current[0], nil
		}
	}
	return err
}

func ownValues(t *testing.T, h Harness) {
	s := h.Store
	v := []byte("value")
	rev := put(t, s, cas.Put("k", v))
	v[0] = 'X'
	if got := string(get(t, s, "k").Value); got != "value" {
		t.Errorf("the caller's own slice changed the store: %q", got)
	}
	get(t, s, "k").Value[0] = 'X'
	list(t, s, "k").Entries[0].Value[0] = 'X'
	_, err := s.Commit(t.Context(), cas.Txn{If: []cas.Cond{cas.AtRev("k", rev+1)}})
	var conflict *cas.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("got error %v, want a conflict", err)
	}
	conflict.Current[0].Value[0] = 'X'
	if got := string(get(t, s, "k").Value); got != "value" {
		t.Errorf("a reader changed the store: %q", got)
	}
}
