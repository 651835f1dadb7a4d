package fencetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func testSealAll(t T, x *fixture) {
	f := x.fence.(GroupSealer)
	ctx := t.Context()
	other := Token(5)
	other.Group = "orders"
	x.seal(t, Token(5))
	x.seal(t, other)
	for range 2 { // idempotent
		if err := f.SealAll(ctx, "accounts", 34); err != nil {
			t.Fatalf("%v", err)
		}
	}
	floor := shard.Token{Epoch: 34 << 48}
	wantFenced(t, x.add(t, Token(5), 1, 1), Token(5), floor)
	wantFenced(t, f.Seal(ctx, Token(6)), Token(6), floor)
	if err := x.add(t, other, 2, 1); err != nil {
		t.Errorf("another group: %v", err)
	}

	// A shard that was never sealed: after Reset, old numbers mean other keys.
	fresh := Token(6)
	fresh.Shard = 60
	wantFenced(t, f.Seal(ctx, fresh), fresh, floor)
	wantFenced(t, x.add(t, fresh, 1, 1), fresh, floor)

	for _, n := range []int{7, 60} {
		tok := Token(1)
		tok.Shard = n
		tok.Epoch = 34<<48 | 1
		x.seal(t, tok)
		if err := x.add(t, tok, 3, 1); err != nil {
			t.Errorf("new lineage, shard %d: %v", n, err)
		}
		if err := f.SealAll(ctx, "accounts", 34); err != nil {
			t.Fatalf("%v", err)
		}
		if err := x.add(t, tok, 3, 1); err != nil {
			t.Errorf("SealAll again has shut out the new lineage: %v", err)
		}
	}
	x.wantBalance(t, 1, 0)
	x.wantBalance(t, 2, 1)
	x.wantBalance(t, 3, 4)

	for _, lineage := range []int{-1, 0, shard.MaxLineage + 1} {
		if err := f.SealAll(ctx, "accounts", lineage); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("SealAll in lineage %d: got %v (%s), want an error that is not applied", lineage, err, cas.OutcomeOf(err))
		}
	}
	if err := f.SealAll(ctx, "", 1); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("SealAll without a group: got %v (%s), want an error that is not applied", err, cas.OutcomeOf(err))
	}
}

// Whichever of the two comes first, after both the older epoch is out.
func testSealAllRace(t T, x *fixture) {
	f := x.fence.(GroupSealer)
	for round := range 20 {
		tok := Token(5)
		tok.Group = fmt.Sprintf("group-%d", round) // without a floor yet
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := f.Seal(t.Context(), tok); err != nil {
				if _, ok := errors.AsType[*fence.FencedError](err); !ok {
					t.Errorf("Seal: %v", err)
				}
			}
		})
		wg.Go(func() {
			if err := f.SealAll(t.Context(), tok.Group, 34); err != nil {
				t.Errorf("SealAll: %v", err)
			}
		})
		wg.Wait()
		wantFenced(t, x.add(t, tok, 1, 1), tok, shard.Token{Epoch: 34 << 48})
	}
	x.wantBalance(t, 1, 0)
}
