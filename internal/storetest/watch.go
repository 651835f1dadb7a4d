package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
)

var watchTests = []test{
	{name: "watch from a past revision", run: watchPast},
	{name: "watch delivers whole revisions in order", run: watchOrder},
	{name: "a deletion has only key and revision", run: watchDeletion},
	{name: "watch of one prefix among others", run: watchPrefix},
	{name: "watch ends with its context", run: watchContext},
	{name: "watch from a compacted revision", needs: []Fault{Compaction}, run: watchCompacted},
	{name: "compaction spares a watch that is up to date", needs: []Fault{Compaction}, run: watchSurvives},
	{name: "compaction under a watch that is cut off", needs: []Fault{Compaction, Partition}, run: compactionUnder},
	{name: "progress reaches the current revision", run: progress},
	{name: "progress never passes events", run: progressOrder},
}

func watchPast(t *testing.T, h Harness) {
	s := h.Store
	start := put(t, s, cas.Put("k/0", nil))
	created := put(t, s, cas.Put("k/1", []byte("a")))
	put(t, s, cas.Put("elsewhere", nil))
	changed := put(t, s, cas.Put("k/1", []byte("b")), cas.Put("k/2", nil))
	gone := put(t, s, cas.Delete("k/1"))

	changes := s.Watch(t.Context(), "k/", start)
	want := []cas.Change{
		{Rev: created, Events: []cas.Event{{Entry: cas.Entry{Key: "k/1", Value: []byte("a"), Rev: created, Created: created}}}},
		{Rev: changed, Events: []cas.Event{
			{Entry: cas.Entry{Key: "k/1", Value: []byte("b"), Rev: changed, Created: created}},
			{Entry: cas.Entry{Key: "k/2", Rev: changed, Created: changed}},
		}},
		{Rev: gone, Events: []cas.Event{{Entry: cas.Entry{Key: "k/1", Rev: gone}, Deleted: true}}},
	}
	var got []cas.Change
	for range want {
		got = append(got, events(t, changes))
	}
	if diff := cmp.Diff(want, got, emptyIsNil); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	later := put(t, s, cas.Put("k/3", nil))
	if c := events(t, changes); c.Rev != later {
		t.Errorf("the next change is of revision %d, want %d", c.Rev, later)
	}
}

// emptyIsNil takes a value of no bytes for no value: stores need not tell them apart.
var emptyIsNil = cmp.Transformer("emptyIsNil", func(b []byte) string { return string(b) })

func watchOrder(t *testing.T, h Harness) {
	const writers, each = 4, 50
	start := list(t, h.Store, "").Rev
	changes := h.Store.Watch(t.Context(), "k/", start)
	var wg sync.WaitGroup
	defer wg.Wait()
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				a, b := fmt.Sprintf("k/%d/%d/a", w, i), fmt.Sprintf("k/%d/%d/b", w, i)
				if _, err := h.Other.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put(a, nil), cas.Put(b, nil)}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	last := start
	for range writers * each {
		c := events(t, changes)
		if c.Rev != last+1 {
			t.Fatalf("revision %d after %d", c.Rev, last)
		}
		last = c.Rev
		if len(c.Events) != 2 {
			t.Fatalf("revision %d came with %d events, want both of its transaction", c.Rev, len(c.Events))
		}
	}
}

func watchDeletion(t *testing.T, h Harness) {
	s := h.Store
	l := grant(t, s, h.MinTTL*10)
	rev := put(t, s, cas.PutLeased("k", []byte("v"), l.ID))
	changes := s.Watch(t.Context(), "k", rev-1)
	if e := events(t, changes).Events[0]; e.Lease != l.ID || e.Created != rev || e.Deleted {
		t.Errorf("event of a put: %+v", e)
	}
	gone := put(t, s, cas.Delete("k"))
	deletions(t, events(t, changes), []string{"k"})
	anew := put(t, s, cas.Put("k", nil))
	if c := events(t, changes); c.Rev != anew || c.Events[0].Created != anew || c.Events[0].Lease != 0 {
		t.Errorf("deleted at %d and made anew at %d: %+v", gone, anew, c)
	}
}

func watchPrefix(t *testing.T, h Harness) {
	s := h.Store
	rev := list(t, s, "").Rev
	all, some, one := s.Watch(t.Context(), "", rev), s.Watch(t.Context(), "a/", rev), s.Watch(t.Context(), "a/1", rev)
	mixed := put(t, s, cas.Put("b/1", nil), cas.Put("a/1", nil), cas.Put("a0", nil), cas.Put("a/2", nil))
	for name, w := range map[string]struct {
		changes <-chan cas.Change
		want    int
	}{"all": {all, 4}, "some": {some, 2}, "one": {one, 1}} {
		if c := events(t, w.changes); c.Rev != mixed || len(c.Events) != w.want {
			t.Errorf("%s: got %v, want %d events of revision %d", name, c, w.want, mixed)
		}
	}
}

func watchContext(t *testing.T, h Harness) {
	because := errors.New("because")
	ctx, cancel := context.WithCancelCause(t.Context())
	rev := put(t, h.Store, cas.Put("k", nil))
	live, undrained := h.Store.Watch(ctx, "k", rev), h.Store.Watch(ctx, "k", rev-1)
	for range 5 {
		rev = put(t, h.Store, cas.Put("k", nil))
	}
	for c := events(t, live); c.Rev != rev; {
		c = events(t, live)
	}
	cancel(because)
	if err := broken(t, live); !errors.Is(err, because) {
		t.Errorf("got error %v, want the context's cause", err)
	}
	if err := broken(t, undrained); !errors.Is(err, because) {
		t.Errorf("a watch that nobody received from: got error %v, want the context's cause", err)
	}
	if err := broken(t, h.Store.Watch(ctx, "k", rev)); !errors.Is(err, because) {
		t.Errorf("a watch with an ended context: got error %v, want the context's cause", err)
	}
}

func watchCompacted(t *testing.T, h Harness) {
	s := h.Store
	first := put(t, s, cas.Put("k", nil))
	for range 3 {
		put(t, s, cas.Put("k", nil))
	}
	last := put(t, s, cas.Put("k", nil))
	h.Compact(t, last-1)
	refused(t, "watch from a compacted revision", broken(t, s.Watch(t.Context(), "k", first)), cas.ErrCompacted)
	if c := events(t, s.Watch(t.Context(), "k", last-1)); c.Rev != last {
		t.Errorf("watch from the oldest revision kept: %v", c)
	}
}

func watchSurvives(t *testing.T, h Harness) {
	s := h.Store
	changes := s.Watch(t.Context(), "k", put(t, s, cas.Put("k", nil)))
	rev := put(t, s, cas.Put("k", nil))
	events(t, changes)
	h.Compact(t, rev)
	rev = put(t, s, cas.Put("k", nil))
	if c := events(t, changes); c.Rev != rev {
		t.Errorf("after a compaction the watch goes on with revision %d, want %d", c.Rev, rev)
	}
}

func compactionUnder(t *testing.T, h Harness) {
	changes := h.Store.Watch(t.Context(), "k", put(t, h.Store, cas.Put("k", nil)))
	put(t, h.Store, cas.Put("k", nil))
	events(t, changes)

	h.Cut(true)
	var rev int64
	for range 5 {
		rev = put(t, h.Other, cas.Put("k", nil))
	}
	h.Compact(t, rev)
	h.Cut(false)
	// A store whose connection survived the cut gets what was under way; one that connects
	// anew must not go on as if nothing had been missed.
	select {
	case c := <-changes:
		if c.Err != nil {
			refused(t, "watch that missed what was compacted", c.Err, cas.ErrCompacted)
			return
		}
		for got := c; got.Rev < rev; {
			next := events(t, changes)
			if next.Rev != got.Rev+1 {
				t.Fatalf("revision %d after %d: what was compacted is missing", next.Rev, got.Rev)
			}
			got = next
		}
	case <-after(patience):
		t.Fatal("the watch is silent after the cut")
	}
}

// reach asks for progress until the watch reports at least rev, and checks that it reports
// no events.
func reach(t *testing.T, s cas.Store, changes <-chan cas.Change, rev int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("progress up to revision %d", rev), func() bool {
		if err := s.Progress(t.Context()); err != nil {
			t.Fatalf("progress: %v", err)
		}
		for {
			select {
			case c := <-changes:
				if c.Err != nil || len(c.Events) != 0 {
					t.Fatalf("got %v, want a report of progress", c)
				}
				if c.Rev >= rev {
					return true
				}
			case <-after(patience / 100):
				return false
			}
		}
	})
}

func progress(t *testing.T, h Harness) {
	s := h.Store
	start := put(t, s, cas.Put("k", nil))
	quiet, busy := s.Watch(t.Context(), "k", start), s.Watch(t.Context(), "elsewhere", start)
	reach(t, s, quiet, start)
	for range 3 {
		rev := put(t, h.Other, cas.Put("elsewhere", nil))
		if c := events(t, busy); c.Rev != rev {
			t.Errorf("got revision %d, want %d", c.Rev, rev)
		}
		reach(t, s, quiet, rev)
	}
	if rev := put(t, s, cas.Put("k", nil)); events(t, quiet).Rev != rev {
		t.Errorf("the next event is not of revision %d", rev)
	}
}

// progressOrder relies on events: it fails if a change comes after progress has passed it.
func progressOrder(t *testing.T, h Harness) {
	const n = 300
	s := h.Store
	changes := s.Watch(t.Context(), "k", list(t, s, "").Rev)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for range n {
			if _, err := h.Other.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}}); err != nil {
				t.Error(err)
				return
			}
			if err := s.Progress(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	for reached, got := int64(0), 0; got < n; {
		c := next(t, changes)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		if c.Rev < reached || len(c.Events) > 0 && c.Rev == reached {
			t.Fatalf("revision %d with %d events after %d was reached", c.Rev, len(c.Events), reached)
		}
		reached = c.Rev
		got += len(c.Events)
	}
}
