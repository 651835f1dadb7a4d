package fencetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func testEquality(t T, x *fixture) {
	add := func(tok shard.Token) error { return x.add(t, tok, 1, 1) }

	wantIs(t, add(Token(5)), fence.ErrNotSealed) // it knows nothing of the shard
	x.seal(t, Token(5))
	if err := add(Token(5)); err != nil {
		t.Errorf("under the sealed epoch: %v", err)
	}
	wantFenced(t, add(Token(4)), Token(4), Token(5))
	wantIs(t, add(Token(6)), fence.ErrNotSealed) // it has loaded what 5 may still change
	x.seal(t, Token(6))
	wantFenced(t, add(Token(5)), Token(5), Token(6))
	if err := add(Token(6)); err != nil {
		t.Errorf("under the sealed epoch: %v", err)
	}

	other := Token(6)
	other.Shard = 8
	wantIs(t, add(other), fence.ErrNotSealed)
	other = Token(6)
	other.Group = "orders"
	wantIs(t, add(other), fence.ErrNotSealed)
	x.wantBalance(t, 1, 2)

	for _, err := range []error{add(Token(5)), add(Token(7)), x.fence.Seal(t.Context(), Token(5))} {
		if got := cas.OutcomeOf(err); got != cas.NotApplied {
			t.Errorf("outcome of %v: got %s, want not applied", err, got)
		}
	}
}

func testSealRefusesOlder(t T, x *fixture) {
	x.seal(t, Token(5))
	wantFenced(t, x.fence.Seal(t.Context(), Token(4)), Token(4), Token(5))
	if err := x.add(t, Token(5), 1, 1); err != nil {
		t.Errorf("the refused seal has shut out the owner: %v", err)
	}
}

func testSealIdempotent(t T, x *fixture) {
	for range 3 {
		x.seal(t, Token(5))
		if err := x.add(t, Token(5), 1, 1); err != nil {
			t.Errorf("%v", err)
		}
	}
	x.wantBalance(t, 1, 3)
}

func testConcurrentSeals(t T, x *fixture) {
	const rounds, sealers = 5, 8
	for round := range rounds {
		at := func(n int64) shard.Token { // a shard that was never sealed
			tok := Token(n)
			tok.Shard = round
			return tok
		}
		errs := make([]error, sealers+1)
		var wg sync.WaitGroup
		for _, n := range rand.Perm(sealers) {
			wg.Go(func() { errs[n+1] = x.fence.Seal(t.Context(), at(int64(n+1))) })
		}
		wg.Wait()
		if errs[sealers] != nil {
			t.Errorf("the highest seal: %v", errs[sealers])
		}
		for n := 1; n < sealers; n++ {
			if e, ok := errors.AsType[*fence.FencedError](errs[n]); errs[n] != nil && (!ok || e.Current <= at(int64(n)).Epoch) {
				t.Errorf("seal %d: got %v, want nil or fenced by a higher one", n, errs[n])
			}
			wantFenced(t, x.add(t, at(int64(n)), 1, 1), at(int64(n)), at(sealers))
		}
		if err := x.add(t, at(sealers), 2, 1); err != nil {
			t.Errorf("%v", err)
		}
	}
	x.wantBalance(t, 1, 0)
	x.wantBalance(t, 2, rounds)
}

// A double holds integers to 2^53, which lineage 32 exceeds: neighbours would look equal.
func testExactEpochs(t T, x *fixture) {
	for i, lineage := range []int{0, 31, 32, 33, 1 << 14, shard.MaxLineage} {
		for _, revision := range []int64{2, 1<<47 + 1, shard.MaxRevision - 1} {
			e, err := shard.NewEpoch(lineage, revision)
			if err != nil {
				t.Fatalf("%v", err)
			}
			tok := Token(1)
			tok.Shard = 100 + i
			tok.Epoch = e
			below, above := tok, tok
			below.Epoch--
			above.Epoch++
			x.seal(t, tok)
			if err := x.add(t, tok, 1, 1); err != nil {
				t.Errorf("%s: %v", e, err)
			}
			wantFenced(t, x.add(t, below, 2, 1), below, tok)
			wantIs(t, x.add(t, above, 2, 1), fence.ErrNotSealed)
		}
	}
	x.wantBalance(t, 1, 18)
	x.wantBalance(t, 2, 0)
}

func testForeignGroup(t T, x *fixture) {
	x.seal(t, Token(5))
	for _, revision := range []int64{4, 5, 6} {
		foreign := Token(revision)
		foreign.GroupID = "0cc175b9"
		errs := map[string]error{
			"Seal": x.fence.Seal(t.Context(), foreign),
			"Add":  x.add(t, foreign, 1, 1),
		}
		if p, ok := x.fence.(Positional); ok {
			_, errs["Position"] = p.Position(t.Context(), foreign, "orders")
		}
		for what, err := range errs {
			e, ok := errors.AsType[*fence.GroupError](err)
			if !ok {
				t.Errorf("%s under revision %d: got %v, want a GroupError", what, revision, err)
				continue
			}
			want := fence.GroupError{Group: "accounts", Shard: 7, Mine: "0cc175b9", Theirs: "9f86d081"}
			if *e != want {
				t.Errorf("%s: got %+v, want %+v", what, *e, want)
			}
		}
	}
	if err := x.add(t, Token(5), 1, 1); err != nil {
		t.Errorf("a foreign group has shut out the owner: %v", err)
	}
	x.wantBalance(t, 1, 1)
}

// Two clusters that meet on a shard that was never sealed: one has it, and is not disturbed.
func testForeignRace(t T, x *fixture) {
	rounds := 20
	if x.OneWriter {
		rounds = 200 // they seldom meet
	}
	for round := range rounds {
		toks := [2]shard.Token{Token(5), Token(6)}
		toks[1].GroupID = "0cc175b9"
		var errs [2]error
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range toks {
			toks[i].Shard = round
			wg.Go(func() { <-start; errs[i] = x.fence.Seal(t.Context(), toks[i]) })
		}
		close(start)
		wg.Wait()
		first, second := 0, 1
		if errs[0] != nil {
			first, second = 1, 0
		}
		if errs[first] != nil {
			t.Errorf("neither has sealed: %v", errs)
		}
		if _, ok := errors.AsType[*fence.GroupError](errs[second]); !ok {
			t.Errorf("the second: got %v, want a GroupError", errs[second])
		}
		if err := x.add(t, toks[first], 1, 1); err != nil {
			t.Errorf("the first: %v", err)
		}
	}
	x.wantBalance(t, 1, rounds)
}

func testBadTokens(t T, x *fixture) {
	for name, spoil := range map[string]func(*shard.Token){
		"zero":           func(tok *shard.Token) { *tok = shard.Token{} },
		"no group":       func(tok *shard.Token) { tok.Group = "" },
		"group":          func(tok *shard.Token) { tok.Group = "a/b" },
		"no group id":    func(tok *shard.Token) { tok.GroupID = "" },
		"group id":       func(tok *shard.Token) { tok.GroupID = "é" },
		"negative shard": func(tok *shard.Token) { tok.Shard = -1 },
		"shard":          func(tok *shard.Token) { tok.Shard = 1 << 16 },
		"no epoch":       func(tok *shard.Token) { tok.Epoch = 0 },
		"negative epoch": func(tok *shard.Token) { tok.Epoch = -1 },
		"floor":          func(tok *shard.Token) { tok.Epoch = 34 << 48 },
	} {
		tok := Token(5)
		spoil(&tok)
		errs := []error{x.fence.Seal(t.Context(), tok), x.add(t, tok, 1, 1)}
		if p, ok := x.fence.(Positional); ok {
			_, err := p.Position(t.Context(), tok, "orders")
			errs = append(errs, err)
		}
		for _, err := range errs {
			wantIs(t, err, fence.ErrToken)
			if got := cas.OutcomeOf(err); got != cas.NotApplied {
				t.Errorf("%s: outcome %s, want not applied", name, got)
			}
		}
	}
	x.wantBalance(t, 1, 0)
}

func testEndedContext(t T, x *fixture) {
	x.seal(t, Token(5))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.fence.Add(ended, Token(5), 1, 1); err == nil {
		t.Errorf("Add under an ended context: got nil, want an error")
	}
	x.wantBalance(t, 1, 0)
	if err := x.add(t, Token(5), 1, 1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	x.wantBalance(t, 1, 1)
}
