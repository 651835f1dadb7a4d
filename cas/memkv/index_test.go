package memkv

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/cas"
)

// The index does its sorting lazily; a map and a sort are its twin.
func TestIndexAgainstAMap(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		x, twin := newIndex(), make(map[string]int64)
		for i := int64(1); i < 5000; i++ {
			key := fmt.Sprintf("%c/%03d", 'a'+r.IntN(3), r.IntN(1500))
			if _, ok := twin[key]; ok && r.IntN(3) > 0 {
				x.delete(key)
				delete(twin, key)
			} else {
				x.put(cas.Entry{Key: key, Rev: i})
				twin[key] = i
			}
			if got := x.get(key).Rev; got != twin[key] {
				t.Fatalf("seed %d: get %q: revision %d, want %d", seed, key, got, twin[key])
			}
			if r.IntN(500) > 0 {
				continue
			}
			for _, prefix := range []string{"", "a", "b/", "c/1", "z"} {
				var got []string
				for e := range x.under(prefix) {
					if e.Rev != twin[e.Key] {
						t.Fatalf("seed %d: %q has revision %d, want %d", seed, e.Key, e.Rev, twin[e.Key])
					}
					got = append(got, e.Key)
				}
				want := slices.DeleteFunc(slices.Sorted(maps.Keys(twin)), func(k string) bool { return !strings.HasPrefix(k, prefix) })
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: under %q: got %v, want %v", seed, prefix, got, want)
				}
			}
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := NewServer(Config{History: 10})
	c := s.Client()
	defer c.Close()
	slow := c.Watch(t.Context(), "", 1)
	for range 100 {
		if _, err := c.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.log.revs); n > 21 {
		t.Errorf("%d revisions are kept, want at most 21", n)
	}
	for want := int64(2); want <= 101; want++ {
		if c := <-slow; c.Rev != want {
			t.Fatalf("a slow watch got %v, want revision %d", c, want)
		}
	}
	if c := <-c.Watch(t.Context(), "", 1); c.Err == nil {
		t.Errorf("a new watch from revision 1 got %v", c)
	}
}
