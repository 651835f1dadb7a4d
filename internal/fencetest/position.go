package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// consume applies one batch, which adds 1 and reaches next.
func (x *fixture) consume(ctx context.Context, tok shard.Token, stream string, next int64) error {
	return x.fence.Tx(ctx, tok, func(tx *sql.Tx) error {
		if err := x.deposit(ctx, tx, 1, 1); err != nil {
			return err
		}
		return x.fence.Advance(ctx, tx, tok, stream, next)
	})
}

func (x *fixture) wantPosition(t *testing.T, tok shard.Token, stream string, want int64) {
	t.Helper()
	got, err := x.fence.Position(t.Context(), tok, stream)
	if err != nil || got != want {
		t.Errorf("Position(%s, %q): got %d, %v, want %d", tok, stream, got, err, want)
	}
}

// testPositionOnce: a batch whose commit was applied but whose reply was lost is tried again, by
// the same owner or the next.
func testPositionOnce(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(1))
	x.wantPosition(t, token(1), "orders", -1)
	for revision := int64(1); revision <= 3; revision++ {
		x.seal(t, token(revision))
		next := revision * 100
		if err := x.consume(t.Context(), token(revision), "orders", next); err != nil {
			t.Fatal(err)
		}
		for _, again := range []int64{next, next - 1, 0} {
			err := x.consume(t.Context(), token(revision), "orders", again)
			e, ok := errors.AsType[*fence.PositionError](err)
			if !ok || *e != (fence.PositionError{Stream: "orders", Stored: next, Next: again}) {
				t.Errorf("advance from %d to %d: got %v, want a PositionError", next, again, err)
			}
			if got := cas.OutcomeOf(err); got != cas.NotApplied {
				t.Errorf("outcome: got %s, want not applied", got)
			}
		}
		x.wantPosition(t, token(revision), "orders", next)
	}
	x.wantBalance(t, 1, 3)

	if err := x.consume(t.Context(), token(3), "orders", -1); err == nil {
		t.Error("advance to -1: got nil, want an error")
	}
	// Streams and shards are apart; 0 is a position.
	if err := x.consume(t.Context(), token(3), "Orders", 0); err != nil {
		t.Error(err)
	}
	x.wantPosition(t, token(3), "Orders", 0)
	x.wantPosition(t, token(3), "orders", 300)
	other := token(3)
	other.Shard = 8
	x.seal(t, other)
	x.wantPosition(t, other, "orders", -1)
}

func testPositionFenced(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	_, err := x.fence.Position(t.Context(), token(2), "orders")
	wantIs(t, err, fence.ErrNotSealed)
	x.seal(t, token(2))
	if err := x.consume(t.Context(), token(2), "orders", 100); err != nil {
		t.Fatal(err)
	}
	// Above what was sealed: what it reads, the owner may still move.
	_, err = x.fence.Position(t.Context(), token(3), "orders")
	wantIs(t, err, fence.ErrNotSealed)
	_, err = x.fence.Position(t.Context(), token(1), "orders")
	wantFenced(t, err, token(1), token(2))
	wantFenced(t, x.consume(t.Context(), token(1), "orders", 200), token(1), token(2))
	wantFenced(t, x.consume(t.Context(), token(1), "refunds", 200), token(1), token(2))
	x.wantPosition(t, token(2), "orders", 100)
	x.wantPosition(t, token(2), "refunds", -1)
	x.wantBalance(t, 1, 1)
}
