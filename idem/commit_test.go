package idem

import (
	"context"
	"testing"

	"github.com/tenure-go/tenure/cas/memkv"
)

// What fn has left running can't write over a result: a step that was waiting for its turn when the operation ended.
// It has passed memo by then, so this begins where it goes on.
func TestCommitAfterTheEnd(t *testing.T) {
	kv := memkv.New()
	defer kv.Close()
	e, err := New(OnCAS(kv, ""), Config{})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(ctx context.Context, x Txn) (int64, error) {
		p, err := x.Run()
		if err != nil {
			return 0, err
		}
		return e.Store().Swap(ctx, x.ID, x.Rev, p)
	}
	q := Request{Scope: "a", Key: "k"}
	var left *Op
	if _, err := Do(t.Context(), e, q, func(_ context.Context, op *Op) (int, error) { left = op; return 7, nil }); err != nil {
		t.Fatal(err)
	}
	ran := false
	err = left.commit(t.Context(), "late", false, commit, func() (any, error) { ran = true; return 8, nil })
	if err == nil || ran {
		t.Errorf("a step after the end: got %v, and it ran: %t; want it refused", err, ran)
	}
	got, err := Do(t.Context(), e, q, func(context.Context, *Op) (int, error) { return 9, nil })
	if got != 7 || err != nil {
		t.Errorf("replay: got %d, %v, want 7", got, err)
	}
}
