package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
)

var lifeTests = []test{
	{name: "clock goes on and never back", run: clock},
	{name: "clock reads allocate nothing", run: clockFree},
	{name: "close ends watches and requests", run: closing},
	{name: "close does not wait for receivers", run: closeUndrained},
}

func clock(t *testing.T, h Harness) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := h.Store.Now()
			for range 10_000 {
				now := h.Store.Now()
				if now < last {
					t.Errorf("the clock went from %v to %v", last, now)
				}
				last = now
			}
		})
	}
	wg.Wait()
	const d = 30 * time.Millisecond
	start := h.Store.Now()
	pass(d)
	if got := h.Store.Now() - start; got < d || got > patience/2 {
		t.Errorf("%v were %v by the store's clock", d, got)
	}
}

func clockFree(t *testing.T, h Harness) {
	if n := testing.AllocsPerRun(100, func() { h.Store.Now() }); n != 0 {
		t.Errorf("reading the clock allocates %v times", n)
	}
}

func closing(t *testing.T, h Harness) {
	s := h.Store
	lease := grant(t, s, h.MinTTL*10)
	rev := put(t, s, cas.Put("k", nil))
	watches := []<-chan cas.Change{s.Watch(t.Context(), "k", rev), s.Watch(t.Context(), "", 0)}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	watches = append(watches, s.Watch(t.Context(), "k", rev))
	for _, w := range watches {
		refused(t, "watch of a closed store", broken(t, w), cas.ErrClosed)
	}
	_, err := s.Get(t.Context(), "k")
	refused(t, "get", err, cas.ErrClosed)
	_, err = s.List(t.Context(), "k")
	refused(t, "list", err, cas.ErrClosed)
	_, err = s.Digest(t.Context(), "k", 0)
	refused(t, "digest", err, cas.ErrClosed)
	_, err = s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
	refused(t, "commit", err, cas.ErrClosed)
	_, err = s.Grant(t.Context(), time.Hour)
	refused(t, "grant", err, cas.ErrClosed)
	_, err = s.Renew(t.Context(), lease.ID)
	refused(t, "renew", err, cas.ErrClosed)
	refused(t, "revoke", s.Revoke(t.Context(), lease.ID), cas.ErrClosed)
	refused(t, "progress", s.Progress(t.Context()), cas.ErrClosed)
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if e := get(t, h.Other, "k"); e.Rev != rev {
		t.Errorf("another client sees %v, want revision %d", e, rev)
	}
}

func closeUndrained(t *testing.T, h Harness) {
	s := h.Store
	rev := put(t, s, cas.Put("k", nil))
	for range 5 {
		s.Watch(t.Context(), "k", rev-1)
	}
	for range 10 {
		put(t, s, cas.Put("k", nil))
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.Close()
	}()
	select {
	case <-closed:
	case <-after(patience):
		t.Fatal("close hangs on watches that nobody receives from")
	}
}
