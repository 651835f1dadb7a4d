package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// The receipts of package cas on a real etcd, through a proxy that loses what a try sends or
// gets back.
func TestCase_etcd14890_UpdateThroughLostReplies(t *testing.T) {
	h := openEtcd(t)
	add := func(n *int) error { *n++; return nil }

	h.LoseReply(t)
	_, err := cas.Update(t.Context(), h.Store, "n", add, cas.UpdateConfig{})
	if !errors.Is(err, cas.ErrUncertain) {
		t.Errorf("without a receipt: got error %v", err)
	}
	if n, _, err := cas.Get[int](t.Context(), h.Other, "n"); n != 1 || err != nil {
		t.Fatalf("got %d, %v, want 1", n, err)
	}

	op := cas.UpdateConfig{Receipt: "op", Tries: 100}
	h.LoseReply(t)
	for range 3 {
		if n, err := cas.Update(t.Context(), h.Store, "n", add, op); n != 2 || err != nil {
			t.Errorf("with a receipt: got %d, %v, want 2", n, err)
		}
	}
}

func TestUpdateThroughALostRequest(t *testing.T) {
	h := openEtcd(t)
	h.LoseRequest(t)
	big := func(v *[]byte) error { *v = append(*v, make([]byte, 32<<10)...); return nil }
	v, err := cas.Update(t.Context(), h.Store, "v", big, cas.UpdateConfig{Receipt: "op", Tries: 100})
	if err != nil || len(v) != 32<<10 {
		t.Errorf("got %d bytes, %v", len(v), err)
	}
	got, _, err := cas.Get[[]byte](t.Context(), h.Other, "v")
	if err != nil || len(got) != 32<<10 {
		t.Errorf("stored are %d bytes, %v", len(got), err)
	}
}

// A quiet store reports progress to a watch that has connected anew: a node takes the lack
// of it for blindness.
func TestEtcdkvProgressAfterAReconnect(t *testing.T) {
	h := openEtcd(t)
	rev, err := h.Store.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
	if err != nil {
		t.Fatal(err)
	}
	changes := h.Store.Watch(t.Context(), "k", rev)
	for range 3 {
		if err := h.Store.Progress(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case c := <-changes:
			if c.Err != nil || c.Rev != rev {
				t.Fatalf("got %v, want progress up to %d", c, rev)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no progress")
		}
		h.Refuse(true)
		h.Refuse(false)
	}
}
