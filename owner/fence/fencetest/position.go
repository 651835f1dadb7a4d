package fencetest

import (
	"context"
	"errors"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// consume applies one batch, which adds 1 and reaches next.
func (x *fixture) consume(ctx context.Context, tok shard.Token, stream string, next int64) error {
	p := x.fence.(Positional)
	return p.Tx(ctx, tok, func(tx Tx) error {
		if err := tx.Add(ctx, 1, 1); err != nil {
			return err
		}
		return p.Advance(ctx, tx, tok, stream, next)
	})
}

func (x *fixture) wantPosition(t T, tok shard.Token, stream string, want int64) {
	t.Helper()
	got, err := x.fence.(Positional).Position(t.Context(), tok, stream)
	if err != nil || got != want {
		t.Errorf("Position(%s, %q): got %d, %v, want %d", tok, stream, got, err, want)
	}
}

// testPositionOnce: a batch whose commit was applied but whose reply was lost is tried again, by
// the same owner or the next.
func testPositionOnce(t T, x *fixture) {
	x.seal(t, Token(1))
	x.wantPosition(t, Token(1), "orders", -1)
	for revision := int64(1); revision <= 3; revision++ {
		x.seal(t, Token(revision))
		next := revision * 100
		if err := x.consume(t.Context(), Token(revision), "orders", next); err != nil {
			t.Fatalf("%v", err)
		}
		for _, again := range []int64{next, next - 1, 0} {
			err := x.consume(t.Context(), Token(revision), "orders", again)
			e, ok := errors.AsType[*fence.PositionError](err)
			if !ok || *e != (fence.PositionError{Stream: "orders", Stored: next, Next: again}) {
				t.Errorf("advance from %d to %d: got %v, want a PositionError", next, again, err)
			}
			if got := cas.OutcomeOf(err); got != cas.NotApplied {
				t.Errorf("outcome: got %s, want not applied", got)
			}
		}
		x.wantPosition(t, Token(revision), "orders", next)
	}
	x.wantBalance(t, 1, 3)

	if err := x.consume(t.Context(), Token(3), "orders", -1); err == nil {
		t.Errorf("advance to -1: got nil, want an error")
	}
	// Streams and shards are apart; 0 is a position.
	if err := x.consume(t.Context(), Token(3), "Orders", 0); err != nil {
		t.Errorf("%v", err)
	}
	x.wantPosition(t, Token(3), "Orders", 0)
	x.wantPosition(t, Token(3), "orders", 300)
	other := Token(3)
	other.Shard = 8
	x.seal(t, other)
	x.wantPosition(t, other, "orders", -1)

	for _, stream := range []string{"", "\x00", "\xff", string(make([]byte, 201))} {
		if _, err := x.fence.(Positional).Position(t.Context(), Token(3), stream); err == nil {
			t.Errorf("Position of %q: got nil, want an error", stream)
		}
	}
}

func testPositionFenced(t T, x *fixture) {
	p := x.fence.(Positional)
	_, err := p.Position(t.Context(), Token(2), "orders")
	wantIs(t, err, fence.ErrNotSealed)
	x.seal(t, Token(2))
	if err := x.consume(t.Context(), Token(2), "orders", 100); err != nil {
		t.Fatalf("%v", err)
	}
	// Above what was sealed: what it reads, the owner may still move.
	_, err = p.Position(t.Context(), Token(3), "orders")
	wantIs(t, err, fence.ErrNotSealed)
	_, err = p.Position(t.Context(), Token(1), "orders")
	wantFenced(t, err, Token(1), Token(2))
	wantFenced(t, x.consume(t.Context(), Token(1), "orders", 200), Token(1), Token(2))
	wantFenced(t, x.consume(t.Context(), Token(1), "refunds", 200), Token(1), Token(2))
	x.wantPosition(t, Token(2), "orders", 100)
	x.wantPosition(t, Token(2), "refunds", -1)
	x.wantBalance(t, 1, 1)
}
