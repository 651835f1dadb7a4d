package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// patience bounds every wait for what should come soon.
const patience = 20 * time.Second

func commit(t *testing.T, s cas.Store, txn cas.Txn) int64 {
	t.Helper()
	rev, err := s.Commit(t.Context(), txn)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return rev
}

func put(t *testing.T, s cas.Store, ops ...cas.Op) int64 {
	t.Helper()
	return commit(t, s, cas.Txn{Then: ops})
}

func get(t *testing.T, s cas.Store, key string) cas.Entry {
	t.Helper()
	e, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	return e
}

func list(t *testing.T, s cas.Store, prefix string) cas.Snapshot {
	t.Helper()
	snap, err := s.List(t.Context(), prefix)
	if err != nil {
		t.Fatalf("list %q: %v", prefix, err)
	}
	return snap
}

func grant(t *testing.T, s cas.Store, ttl time.Duration) cas.Lease {
	t.Helper()
	l, err := s.Grant(t.Context(), ttl)
	if err != nil {
		t.Fatalf("grant: %v", err)
	}
	return l
}

// refused checks that err is want, and says that nothing was applied.
func refused(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("%s: got outcome %q of %v, want %q", what, got, err, cas.NotApplied)
	}
}

// uncertain checks that err says that nobody knows.
func uncertain(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("%s: got error %v with outcome %q, want cas.ErrUncertain", what, err, cas.OutcomeOf(err))
	}
}

// next returns the next change of a watch.
func next(t *testing.T, changes <-chan cas.Change) cas.Change {
	t.Helper()
	select {
	case c, ok := <-changes:
		if !ok {
			t.Fatal("the watch was closed without an error")
		}
		return c
	case <-time.After(patience):
		t.Fatalf("the watch was silent for %v", patience)
	}
	panic("unreachable")
}

// events returns the next change that has events; reports of progress on the way are checked
// to keep the order.
func events(t *testing.T, changes <-chan cas.Change) cas.Change {
	t.Helper()
	var reached int64
	for {
		c := next(t, changes)
		if c.Err != nil {
			t.Fatalf("the watch broke: %v", c.Err)
		}
		if len(c.Events) == 0 {
			reached = max(reached, c.Rev)
			continue
		}
		if c.Rev <= reached {
			t.Fatalf("change of revision %d after progress up to %d was reported", c.Rev, reached)
		}
		for _, e := range c.Events {
			if e.Rev != c.Rev {
				t.Fatalf("event of revision %d in a change of revision %d: %v", e.Rev, c.Rev, e)
			}
		}
		return c
	}
}

// broken waits for the end of a watch, and returns its error.
func broken(t *testing.T, changes <-chan cas.Change) error {
	t.Helper()
	for {
		c := next(t, changes)
		if c.Err == nil {
			continue
		}
		select {
		case c, ok := <-changes:
			if ok {
				t.Fatalf("change after the last: %v", c)
			}
		case <-time.After(patience):
			t.Fatal("the watch was not closed after its last change")
		}
		return c.Err
	}
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func after(d time.Duration) <-chan time.Time { return time.After(d) }

// pass lets d go by: for tests of what must not happen meanwhile.
func pass(d time.Duration) { <-after(d) }
