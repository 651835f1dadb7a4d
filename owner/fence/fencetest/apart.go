package fencetest

import (
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Whatever is sealed, shards and groups that were not keep what they had: neither raised, which shuts out their owners,
// nor forgotten, which lets their zombies in.
func testShardsApart(t T, x *fixture) {
	at := func(group string, n int, revision int64) shard.Token {
		tok := Token(revision)
		tok.Group, tok.Shard = group, n
		return tok
	}
	owners := []shard.Token{at("accounts", 7, 5), at("accounts", 8, 9), at("orders", 7, 3), at("accounts", 6, 7)}
	for i, tok := range owners {
		x.seal(t, tok)
		for account, tok := range owners[:i+1] { // the earlier ones again
			if err := x.add(t, tok, account, 1); err != nil {
				t.Errorf("%s has been shut out by the seal of %s: %v", tok, owners[i], err)
			}
		}
	}

	for _, owner := range owners {
		zombie, early := owner, owner
		zombie.Epoch--
		early.Epoch++
		wantFenced(t, x.add(t, zombie, 9, 1), zombie, owner)
		wantFenced(t, x.fence.Seal(t.Context(), zombie), zombie, owner)
		wantIs(t, x.add(t, early, 9, 1), fence.ErrNotSealed)
	}

	// The next owner of one of them. Its epoch is above all others.
	next := at("accounts", 7, 12)
	x.seal(t, next)
	wantFenced(t, x.add(t, owners[0], 9, 1), owners[0], next)
	for account, tok := range append([]shard.Token{next}, owners[1:]...) {
		if err := x.add(t, tok, account, 1); err != nil {
			t.Errorf("%s has been shut out by the seal of %s: %v", tok, next, err)
		}
		x.wantBalance(t, account, len(owners)-account+1)
	}
	x.wantBalance(t, 9, 0)
}
