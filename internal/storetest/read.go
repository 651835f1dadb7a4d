package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
)

var readTests = []test{
	{name: "an absent key", run: absentKey},
	{name: "list takes a prefix in the order of keys", run: listPrefix},
	{name: "list is of one revision under concurrent writes", run: listOneRevision},
	{name: "digest agrees with list", run: digestAgrees},
	{name: "digest of the past", run: digestPast},
	{name: "digest of a compacted and of a future revision", needs: []Fault{Compaction}, run: digestOutside},
	{name: "TestCase_etcd16028 identity and revision of the store", run: identity},
}

func absentKey(t *testing.T, h Harness) {
	want := cas.Entry{Key: "none"}
	if got := get(t, h.Store, "none"); !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	snap := list(t, h.Store, "none")
	if len(snap.Entries) != 0 || snap.Rev == 0 {
		t.Errorf("list of nothing: %v", snap)
	}
}

func listPrefix(t *testing.T, h Harness) {
	s := h.Store
	all := []string{"a", "a/", "a/b", "a/b/c", "a/\xff", "a/\xff\xff", "a0", "b", "b\xff", "\xff", "\xff\xff"}
	for _, key := range slices.Backward(all) {
		put(t, s, cas.Put(key, []byte(key)))
	}
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/\xff", "b", "\xff", "none"} {
		var want []string
		for _, key := range all {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		var got []string
		for _, e := range list(t, s, prefix).Entries {
			got = append(got, e.Key)
			if string(e.Value) != e.Key {
				t.Errorf("key %q has value %q", e.Key, e.Value)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("list %q (-want +got):\n%s", prefix, diff)
		}
	}
}

// listOneRevision keeps the first and the last of many keys equal, so that a list whose
// pages are of different revisions shows.
func listOneRevision(t *testing.T, h Harness) {
	s := h.Store
	const n = 2500
	var ops []cas.Op
	for i := range n {
		ops = append(ops, cas.Put(fmt.Sprintf("k/%04d", i), []byte("0")))
	}
	for batch := range slices.Chunk(ops, cas.MaxOps) {
		put(t, s, batch...)
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			v := fmt.Append(nil, i)
			txn := cas.Txn{Then: []cas.Op{cas.Put("k/0000", v), cas.Put(fmt.Sprintf("k/%04d", n-1), v), cas.Put("k/1234x", v)}}
			if i%2 == 0 {
				txn.Then[2] = cas.Delete("k/1234x")
			}
			if _, err := h.Other.Commit(t.Context(), txn); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 10 {
		snap := list(t, s, "k/")
		first, last := snap.Entries[0], snap.Entries[len(snap.Entries)-1]
		if string(first.Value) != string(last.Value) {
			t.Errorf("list at revision %d has %s first and %s last", snap.Rev, first.Value, last.Value)
		}
		want := n
		if i := slices.IndexFunc(snap.Entries, func(e cas.Entry) bool { return e.Key == "k/1234x" }); i >= 0 {
			want++
		}
		if len(snap.Entries) != want {
			t.Errorf("list has %d entries, want %d", len(snap.Entries), want)
		}
		for _, e := range snap.Entries {
			if e.Rev > snap.Rev {
				t.Errorf("list at revision %d holds %v", snap.Rev, e)
			}
		}
	}
	close(stop)
	writer.Wait()
}

// sum is the digest that a snapshot should have.
func sum(snap cas.Snapshot) cas.Digest {
	d := cas.Digest{Rev: snap.Rev, Cluster: snap.Cluster, Count: int64(len(snap.Entries))}
	for _, e := range snap.Entries {
		d.Highest = max(d.Highest, e.Rev)
	}
	return d
}

func digest(t *testing.T, s cas.Store, prefix string, rev int64) cas.Digest {
	t.Helper()
	d, err := s.Digest(t.Context(), prefix, rev)
	if err != nil {
		t.Fatalf("digest of %q at %d: %v", prefix, rev, err)
	}
	return d
}

func digestAgrees(t *testing.T, h Harness) {
	s := h.Store
	check := func() {
		t.Helper()
		for _, prefix := range []string{"", "a/", "a/1", "b/", "none"} {
			if want, got := sum(list(t, s, prefix)), digest(t, s, prefix, 0); got != want {
				t.Errorf("digest of %q: got %+v, want %+v", prefix, got, want)
			}
		}
	}
	check()
	put(t, s, cas.Put("a/1", nil), cas.Put("a/2", nil))
	check()
	put(t, s, cas.Put("b/1", nil))
	put(t, s, cas.Put("a/1", nil), cas.Put("b/2", nil))
	check()
	put(t, s, cas.Delete("a/1"))
	check()
}

func digestPast(t *testing.T, h Harness) {
	s := h.Store
	want := make(map[int64]cas.Digest)
	step := func(ops ...cas.Op) {
		t.Helper()
		put(t, s, ops...)
		d := sum(list(t, s, "a/"))
		want[d.Rev] = d
	}
	step(cas.Put("a/1", nil), cas.Put("a/2", nil))
	step(cas.Put("a/2", nil), cas.Put("b", nil))
	step(cas.Delete("a/1"))
	step(cas.Put("b", nil))
	step(cas.Put("a/1", nil), cas.Put("a/3", nil))
	step(cas.Delete("a/1"), cas.Delete("a/2"), cas.Delete("a/3"))
	for rev, d := range want {
		if got := digest(t, s, "a/", rev); got != d {
			t.Errorf("digest at revision %d: got %+v, want %+v", rev, got, d)
		}
	}
}

func digestOutside(t *testing.T, h Harness) {
	s := h.Store
	first := put(t, s, cas.Put("k", []byte("1")))
	second := put(t, s, cas.Put("k", []byte("2")))
	last := put(t, s, cas.Put("k", []byte("3")))
	h.Compact(t, second)
	_, err := s.Digest(t.Context(), "k", first)
	refused(t, "digest of a compacted revision", err, cas.ErrCompacted)
	_, err = s.Digest(t.Context(), "k", last+100)
	refused(t, "digest of a future revision", err, cas.ErrFutureRev)
	if got := digest(t, s, "k", second); got.Highest != second || got.Count != 1 {
		t.Errorf("digest of the oldest revision kept: %+v", got)
	}
	if got := get(t, s, "k"); got.Rev != last || got.Created != first {
		t.Errorf("compaction changed the key: %v", got)
	}
}

// identity is what row 6 of the cases asks of a store (etcd#16028): without the revision and
// the cluster's identity nobody could tell that a store was restored.
func identity(t *testing.T, h Harness) {
	rev := put(t, h.Store, cas.Put("k", nil))
	a, b := list(t, h.Store, "k"), list(t, h.Other, "none")
	if a.Cluster == 0 || a.Cluster != b.Cluster {
		t.Errorf("two clients see clusters %x and %x", a.Cluster, b.Cluster)
	}
	if d := digest(t, h.Other, "k", 0); d.Cluster != a.Cluster || d.Rev != rev {
		t.Errorf("digest %+v, want cluster %x and revision %d", d, a.Cluster, rev)
	}
	if a.Rev != rev || b.Rev != rev {
		t.Errorf("lists at revisions %d and %d, want %d", a.Rev, b.Rev, rev)
	}
	if l := grant(t, h.Other, h.MinTTL*10); l.Rev < rev {
		t.Errorf("a grant tells revision %d, want at least %d", l.Rev, rev)
	}
}
