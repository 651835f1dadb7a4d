package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
)

var faultTests = []test{
	{name: "lost reply: applied once, and nobody said so", needs: []Fault{LostReply}, run: lostReply},
	{name: "lost request: not applied, and nobody said so", needs: []Fault{LostRequest}, run: lostRequest},
	{name: "refused connection", needs: []Fault{Refusal}, run: refusedConnection},
	{name: "cut off: requests end with their context", needs: []Fault{Partition}, run: cutRequests},
	{name: "cut off: watch is silent, then goes on", needs: []Fault{Partition}, run: cutWatch},
	{name: "context ended before a request", run: contextBefore},
	{name: "cut off: the outcome is the request's, not the cause's", needs: []Fault{Partition}, run: outcomeAndCause},
	{name: "no space: refuses puts and new leases only", needs: []Fault{NoSpace}, run: noSpace},
}

func lostReply(t *testing.T, h Harness) {
	s := h.Store
	before := put(t, s, cas.Put("k", []byte("1")))
	h.LoseReply(t)
	_, err := s.Commit(t.Context(), cas.Txn{If: []cas.Cond{cas.AtRev("k", before)}, Then: []cas.Op{cas.Put("k", []byte("2"))}})
	uncertain(t, "commit whose reply is lost", err)

	// An unconditional put applied twice would show as two revisions.
	h.LoseReply(t)
	_, err = s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", []byte("3"))}})
	uncertain(t, "put whose reply is lost", err)
	e := get(t, h.Other, "k")
	if string(e.Value) != "3" || e.Rev != before+2 {
		t.Errorf("after two writes from revision %d the key is %v", before, e)
	}
	if rev := put(t, s, cas.Put("k", []byte("4"))); rev != before+3 {
		t.Errorf("the store's next write has revision %d, want %d", rev, before+3)
	}
}

func lostRequest(t *testing.T, h Harness) {
	s := h.Store
	before := put(t, s, cas.Put("k", []byte("1")))
	h.LoseRequest(t)
	_, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", make([]byte, 16<<10))}})
	uncertain(t, "commit whose request is lost", err)
	if e := get(t, h.Other, "k"); e.Rev != before {
		t.Errorf("after a lost request the key is of revision %d, want %d", e.Rev, before)
	}
	if rev := put(t, s, cas.Put("k", []byte("2"))); rev != before+1 {
		t.Errorf("the store's next write has revision %d, want %d", rev, before+1)
	}
}

func refusedConnection(t *testing.T, h Harness) {
	s := h.Store
	lease := grant(t, s, h.MinTTL*10)
	before := put(t, s, cas.Put("k", nil))
	h.Refuse(true)
	// A request that was under way when the connections broke is not what this is about.
	eventually(t, "the connection is known to be refused", func() bool {
		_, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Delete("none")}})
		return errors.Is(err, cas.ErrUnavailable)
	})
	_, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
	refused(t, "commit", err, cas.ErrUnavailable)
	_, err = s.Grant(t.Context(), time.Hour)
	refused(t, "grant", err, cas.ErrUnavailable)
	_, err = s.Renew(t.Context(), lease.ID)
	refused(t, "renew", err, cas.ErrUnavailable)
	refused(t, "revoke", s.Revoke(t.Context(), lease.ID), cas.ErrUnavailable)
	_, err = s.Get(t.Context(), "k")
	refused(t, "get", err, cas.ErrUnavailable)
	h.Refuse(false)
	eventually(t, "the store is back", func() bool {
		e, err := s.Get(t.Context(), "k")
		return err == nil && e.Rev == before
	})
}

func cutRequests(t *testing.T, h Harness) {
	s := h.Store
	lease := grant(t, s, h.MinTTL*10)
	put(t, s, cas.Put("k", nil))
	h.Cut(true)
	defer h.Cut(false)
	requests := map[string]func(context.Context) error{
		"get":    func(ctx context.Context) error { _, err := s.Get(ctx, "k"); return err },
		"list":   func(ctx context.Context) error { _, err := s.List(ctx, "k"); return err },
		"digest": func(ctx context.Context) error { _, err := s.Digest(ctx, "k", 0); return err },
		"commit": func(ctx context.Context) error {
			_, err := s.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
			return err
		},
		"grant":  func(ctx context.Context) error { _, err := s.Grant(ctx, time.Hour); return err },
		"renew":  func(ctx context.Context) error { _, err := s.Renew(ctx, lease.ID); return err },
		"revoke": func(ctx context.Context) error { return s.Revoke(ctx, lease.ID) },
	}
	for name, request := range requests {
		const limit = 50 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		start := s.Now()
		err := request(ctx)
		cancel()
		if took := s.Now() - start; took > limit+patience/4 {
			t.Errorf("%s took %v, its context ended after %v", name, took, limit)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got error %v, want the context's", name, err)
		}
		switch name {
		case "get", "list", "digest":
			refused(t, name, err, cas.ErrUnavailable)
		default:
			if !errors.Is(err, cas.ErrUncertain) && !errors.Is(err, cas.ErrUnavailable) {
				t.Errorf("%s: got error %v, want uncertain, or unavailable if it was not sent", name, err)
			}
		}
	}
}

func cutWatch(t *testing.T, h Harness) {
	changes := h.Store.Watch(t.Context(), "k", put(t, h.Store, cas.Put("k", nil)))
	put(t, h.Other, cas.Put("k", nil))
	events(t, changes)

	h.Cut(true)
	var last int64
	for range 3 {
		last = put(t, h.Other, cas.Put("k", nil))
	}
	select {
	case c := <-changes:
		t.Errorf("a watch that is cut off delivered %v", c)
	case <-after(50 * time.Millisecond):
	}
	h.Cut(false)
	for want := last - 2; want <= last; want++ {
		if c := events(t, changes); c.Rev != want {
			t.Fatalf("after the cut: revision %d, want %d", c.Rev, want)
		}
	}
}

func contextBefore(t *testing.T, h Harness) {
	s := h.Store
	lease := grant(t, s, h.MinTTL*10)
	before := put(t, s, cas.Put("k", nil))
	because := errors.New("because")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(because)
	for name, request := range map[string]func() error{
		"get":      func() error { _, err := s.Get(ctx, "k"); return err },
		"list":     func() error { _, err := s.List(ctx, "k"); return err },
		"digest":   func() error { _, err := s.Digest(ctx, "k", 0); return err },
		"commit":   func() error { _, err := s.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put("k", nil)}}); return err },
		"grant":    func() error { _, err := s.Grant(ctx, time.Hour); return err },
		"renew":    func() error { _, err := s.Renew(ctx, lease.ID); return err },
		"revoke":   func() error { return s.Revoke(ctx, lease.ID) },
		"progress": func() error { return s.Progress(ctx) },
	} {
		err := request()
		refused(t, name, err, cas.ErrUnavailable)
		if !errors.Is(err, because) {
			t.Errorf("%s: got error %v, want the context's cause in it", name, err)
		}
	}
	if e := get(t, s, "k"); e.Rev != before {
		t.Errorf("something was written: %v", e)
	}
}

// outcomeAndCause: a context may be ended with the error of another request, and what that one
// says of its own outcome must not count for this one.
func outcomeAndCause(t *testing.T, h Harness) {
	s := h.Store
	put(t, s, cas.Put("k", nil))
	for _, other := range []error{&cas.ConflictError{Current: []cas.Entry{{Key: "k"}}}, cas.ErrUncertain, cas.ErrUnavailable} {
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(other)
		_, err := s.Commit(ended, cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
		refused(t, "commit not sent", err, cas.ErrUnavailable)
		_, err = s.Get(ended, "k")
		refused(t, "get not sent", err, cas.ErrUnavailable)
	}
	h.Cut(true)
	defer h.Cut(false)
	for _, other := range []error{&cas.ConflictError{Current: []cas.Entry{{Key: "k"}}}, cas.ErrUnavailable} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, other)
		_, err := s.Commit(ctx, cas.Txn{If: []cas.Cond{cas.Absent("k")}, Then: []cas.Op{cas.Put("k", nil)}})
		cancel()
		uncertain(t, "commit under way when its context ended", err)
		if !errors.Is(err, other) {
			t.Errorf("got error %v, want the context's cause in it", err)
		}
	}
}

func noSpace(t *testing.T, h Harness) {
	s := h.Store
	lease := grant(t, s, h.MinTTL*10)
	put(t, s, cas.PutLeased("leased", nil, lease.ID), cas.Put("k", nil), cas.Put("k2", nil))
	h.Fill(t, true)
	_, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
	refused(t, "put", err, cas.ErrNoSpace)
	_, err = s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Delete("k"), cas.Put("k2", nil)}})
	refused(t, "put with a deletion", err, cas.ErrNoSpace)
	_, err = s.Grant(t.Context(), time.Hour)
	refused(t, "grant", err, cas.ErrNoSpace)
	if _, err := s.Renew(t.Context(), lease.ID); err != nil {
		t.Errorf("renew: %v", err)
	}
	put(t, s, cas.Delete("k"))
	if err := s.Revoke(t.Context(), lease.ID); err != nil {
		t.Errorf("revoke: %v", err)
	}
	if got := keys(list(t, s, "").Entries); got != "k2" {
		t.Errorf("there are %q, want \"k2\"", got)
	}
	h.Fill(t, false)
	put(t, s, cas.Put("k", nil))
}
