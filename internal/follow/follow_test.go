package follow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/follow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reader is what a follower has been told: the keys as they should be by now.
type reader struct {
	mu     sync.Mutex // guards the rest: the bubble orders reads after writes, but not the other way round
	keys   map[string]int64
	lists  int
	broken []error
}

func (r *reader) listed(s cas.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = make(map[string]int64)
	r.lists++
	for _, e := range s.Entries {
		r.keys[e.Key] = e.Rev
	}
}

func (r *reader) changed(c cas.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range c.Events {
		if e.Deleted {
			delete(r.keys, e.Key)
		} else {
			r.keys[e.Key] = e.Rev
		}
	}
}

func (r *reader) broke(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, err)
}

// told is what the reader knows once everything has come to rest.
func (r *reader) told() (keys map[string]int64, lists int, broken []error) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.keys), r.lists, slices.Clone(r.broken)
}

// start follows /a/ until the bubble's test ends.
func start(t *testing.T, store cas.Store, relist <-chan struct{}) *reader {
	r := &reader{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		follow.Run(ctx, follow.Config{
			Store: store, Prefix: "/a/", Listed: r.listed, Changed: r.changed,
			Broken: r.broke,
			Probe:  time.Second, Digest: 10 * time.Second, Timeout: 5 * time.Second, Relist: relist,
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

// agrees holds what the reader knows against the store.
func (r *reader) agrees(t *testing.T, s cas.Store) {
	t.Helper()
	keys, _, _ := r.told()
	snap, err := s.List(context.Background(), "/a/")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]int64)
	for _, e := range snap.Entries {
		want[e.Key] = e.Rev
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-store +reader):\n%s", diff)
	}
}

func put(t *testing.T, s cas.Store, key string) {
	t.Helper()
	if _, err := s.Commit(context.Background(), cas.Txn{Then: []cas.Op{cas.Put(key, nil)}}); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, s cas.Store, key string) {
	t.Helper()
	if _, err := s.Commit(context.Background(), cas.Txn{Then: []cas.Op{cas.Delete(key)}}); err != nil {
		t.Fatal(err)
	}
}

// inBubble runs test with a server, the follower's client and one to write with.
func inBubble(t *testing.T, test func(t *testing.T, server *memkv.Server, followed, other *memkv.Client)) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		followed, other := server.Client(), server.Client()
		t.Cleanup(func() { followed.Close(); other.Close() })
		for i := range 5 {
			put(t, other, fmt.Sprintf("/a/%d", i))
		}
		test(t, server, followed, other)
	})
}

func TestFollows(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *memkv.Server, followed, other *memkv.Client) {
		r := start(t, followed, nil)
		r.agrees(t, other)
		for i := range 50 {
			put(t, other, fmt.Sprintf("/a/%d", i%7))
			put(t, other, "/b/elsewhere")
			remove(t, other, fmt.Sprintf("/a/%d", i%3))
			r.agrees(t, other)
		}
		time.Sleep(5 * time.Minute) // probes and digests find nothing wrong
		if _, lists, broken := r.told(); lists != 1 || len(broken) > 0 {
			t.Errorf("lists: got %d, broken %v, want one list and nothing broken", lists, broken)
		}
	})
}

// TestGapIsFound: etcd#18089's kind of fault: a delete event that the watch never delivers.
func TestGapIsFound(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *memkv.Server, followed, other *memkv.Client) {
		r := start(t, followed, nil)
		r.agrees(t, other)
		followed.Withhold(func(e cas.Event) bool { return e.Deleted })
		remove(t, other, "/a/2")
		keys, _, _ := r.told()
		if _, there := keys["/a/2"]; !there {
			t.Fatal("the delete was not withheld: this test shows nothing")
		}
		followed.Withhold(nil)
		time.Sleep(20 * time.Second)
		r.agrees(t, other)
		_, _, broken := r.told()
		if !slices.ContainsFunc(broken, func(err error) bool { return errors.Is(err, follow.ErrGap) }) {
			t.Errorf("broken: got %v, want ErrGap", broken)
		}
	})
}

func TestSilenceIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *memkv.Server, followed, other *memkv.Client) {
		r := start(t, followed, nil)
		r.agrees(t, other)
		followed.Lag(time.Hour) // as a connection that is dead and does not know
		put(t, other, "/a/9")
		time.Sleep(20 * time.Second)
		r.agrees(t, other)
		if _, _, broken := r.told(); len(broken) == 0 || !errors.Is(broken[0], follow.ErrSilent) {
			t.Errorf("broken: got %v, want ErrSilent", broken)
		}
		followed.Lag(0)
	})
}

func TestCompactionAndRelist(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *memkv.Server, followed, other *memkv.Client) {
		relist := make(chan struct{})
		r := start(t, followed, relist)
		r.agrees(t, other)
		followed.Lag(time.Hour) // what happens now never comes by this watch
		put(t, other, "/a/7")
		remove(t, other, "/a/1")
		followed.Lag(0)
		followed.Break(cas.ErrCompacted)
		time.Sleep(time.Second)
		r.agrees(t, other)
		_, before, broken := r.told()
		if len(broken) != 1 || !errors.Is(broken[0], cas.ErrCompacted) {
			t.Errorf("broken: got %v, want ErrCompacted", broken)
		}
		relist <- struct{}{}
		time.Sleep(time.Second)
		if _, lists, _ := r.told(); lists != before+1 {
			t.Errorf("lists after one was asked for: got %d, want %d", lists, before+1)
		}
		r.agrees(t, other)
	})
}

func TestStoreAway(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *memkv.Server, followed, other *memkv.Client) {
		followed.Cut(true)
		r := start(t, followed, nil)
		time.Sleep(time.Minute)
		if _, lists, broken := r.told(); lists != 0 || len(broken) < 5 {
			t.Errorf("without a store: got %d lists, %d reports, want none and several", lists, len(broken))
		}
		followed.Cut(false)
		time.Sleep(10 * time.Second)
		r.agrees(t, other)
	})
}
