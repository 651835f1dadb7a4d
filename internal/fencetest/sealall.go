package fencetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func testSealAll(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	ctx := t.Context()
	other := token(5)
	other.Group = "orders"
	x.seal(t, token(5))
	x.seal(t, other)
	for range 2 { // idempotent
		if err := x.fence.SealAll(ctx, "accounts", 34); err != nil {
			t.Fatal(err)
		}
	}
	floor := shard.Token{Epoch: 34 << 48}
	wantFenced(t, x.depositTx(ctx, x.fence, token(5), 1, 1), token(5), floor)
	wantFenced(t, x.fence.Seal(ctx, token(6)), token(6), floor)
	if err := x.depositTx(ctx, x.fence, other, 2, 1); err != nil {
		t.Errorf("another group: %v", err)
	}

	// A shard that has no row: after Reset, old numbers mean other keys.
	fresh := token(6)
	fresh.Shard = 60
	wantFenced(t, x.fence.Seal(ctx, fresh), fresh, floor)
	wantFenced(t, x.depositTx(ctx, x.fence, fresh, 1, 1), fresh, floor)

	for _, n := range []int{7, 60} {
		tok := token(1)
		tok.Shard = n
		tok.Epoch = 34<<48 | 1
		x.seal(t, tok)
		if err := x.depositTx(ctx, x.fence, tok, 3, 1); err != nil {
			t.Errorf("new lineage, shard %d: %v", n, err)
		}
		if err := x.fence.SealAll(ctx, "accounts", 34); err != nil {
			t.Fatal(err)
		}
		if err := x.depositTx(ctx, x.fence, tok, 3, 1); err != nil {
			t.Errorf("SealAll again has shut out the new lineage: %v", err)
		}
	}
	x.wantBalance(t, 1, 0)
	x.wantBalance(t, 2, 1)
	x.wantBalance(t, 3, 4)
}

// Whichever of the two comes first, after both the older epoch is out.
func testSealAllRace(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	for round := range 20 {
		tok := token(5)
		tok.Group = fmt.Sprintf("group-%d", round) // without a floor yet
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := x.fence.Seal(t.Context(), tok); err != nil {
				if _, ok := errors.AsType[*fence.FencedError](err); !ok {
					t.Errorf("Seal: %v", err)
				}
			}
		})
		wg.Go(func() {
			if err := x.fence.SealAll(t.Context(), tok.Group, 34); err != nil {
				t.Errorf("SealAll: %v", err)
			}
		})
		wg.Wait()
		wantFenced(t, x.depositTx(t.Context(), x.fence, tok, 1, 1), tok, shard.Token{Epoch: 34 << 48})
	}
	x.wantBalance(t, 1, 0)
}
