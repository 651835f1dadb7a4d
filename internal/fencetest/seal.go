package fencetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func testInstall(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(1))
	if err := x.fence.Install(t.Context()); err != nil {
		t.Errorf("second Install: %v", err)
	}
	if err := x.depositTx(t.Context(), x.fence, token(1), 1, 1); err != nil {
		t.Errorf("after second Install: %v", err)
	}

	// Every process calls it as it starts.
	x.exec(t, "DROP TABLE "+x.conf.Table)
	x.exec(t, "DROP TABLE "+x.conf.Table+"_wanted")
	x.exec(t, "DROP TABLE "+x.conf.Table+"_position")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := x.fence.Install(t.Context()); err != nil {
				t.Errorf("concurrent Install: %v", err)
			}
		})
	}
	wg.Wait()

	x.exec(t, "DROP TABLE "+x.conf.Table)
	x.exec(t, "CREATE TABLE "+x.conf.Table+" (something INTEGER)")
	if err := x.fence.Install(t.Context()); err == nil {
		t.Error("Install over a table of other columns: got nil, want an error")
	}
}

func testEquality(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	ctx := t.Context()
	deposit := func(tok shard.Token) error { return x.depositTx(ctx, x.fence, tok, 1, 1) }

	wantIs(t, deposit(token(5)), fence.ErrNotSealed) // no row at all
	x.seal(t, token(5))
	if err := deposit(token(5)); err != nil {
		t.Errorf("under the sealed epoch: %v", err)
	}
	wantFenced(t, deposit(token(4)), token(4), token(5))
	wantIs(t, deposit(token(6)), fence.ErrNotSealed) // it has loaded what 5 may still change
	x.seal(t, token(6))
	wantFenced(t, deposit(token(5)), token(5), token(6))
	if err := deposit(token(6)); err != nil {
		t.Errorf("under the sealed epoch: %v", err)
	}

	other := token(6)
	other.Shard = 8
	wantIs(t, deposit(other), fence.ErrNotSealed)
	other = token(6)
	other.Group = "orders"
	wantIs(t, deposit(other), fence.ErrNotSealed)
	x.wantBalance(t, 1, 2)

	for _, err := range []error{deposit(token(5)), deposit(token(7))} {
		if got := cas.OutcomeOf(err); got != cas.NotApplied {
			t.Errorf("outcome of %v: got %s, want not applied", err, got)
		}
	}
}

func testSealRefusesOlder(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(5))
	wantFenced(t, x.fence.Seal(t.Context(), token(4)), token(4), token(5))
	if err := x.depositTx(t.Context(), x.fence, token(5), 1, 1); err != nil {
		t.Errorf("the refused seal has shut out the owner: %v", err)
	}
}

func testSealIdempotent(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	for range 3 {
		x.seal(t, token(5))
		if err := x.depositTx(t.Context(), x.fence, token(5), 1, 1); err != nil {
			t.Error(err)
		}
	}
	x.wantBalance(t, 1, 3)
}

func testConcurrentSeals(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	const rounds, sealers = 5, 8
	for round := range rounds {
		at := func(n int64) shard.Token { // a shard that has no row yet
			tok := token(n)
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
			wantFenced(t, x.depositTx(t.Context(), x.fence, at(int64(n)), 1, 1), at(int64(n)), at(sealers))
		}
		if err := x.depositTx(t.Context(), x.fence, at(sealers), 2, 1); err != nil {
			t.Error(err)
		}
	}
	x.wantBalance(t, 1, 0)
	x.wantBalance(t, 2, rounds)
}

// A double holds integers to 2^53, which lineage 32 exceeds: neighbours would look equal.
func testExactEpochs(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	for i, lineage := range []int{0, 31, 32, 33, 1 << 14, shard.MaxLineage} {
		for _, revision := range []int64{2, 1<<47 + 1, shard.MaxRevision - 1} {
			e, err := shard.NewEpoch(lineage, revision)
			if err != nil {
				t.Fatal(err)
			}
			tok := token(1)
			tok.Shard = 100 + i
			tok.Epoch = e
			below, above := tok, tok
			below.Epoch--
			above.Epoch++
			x.seal(t, tok)
			if err := x.depositTx(t.Context(), x.fence, tok, 1, 1); err != nil {
				t.Errorf("%s: %v", e, err)
			}
			wantFenced(t, x.depositTx(t.Context(), x.fence, below, 2, 1), below, tok)
			wantIs(t, x.depositTx(t.Context(), x.fence, above, 2, 1), fence.ErrNotSealed)
		}
	}
	x.wantBalance(t, 1, 18)
	x.wantBalance(t, 2, 0)
}

func testForeignGroup(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(5))
	for _, revision := range []int64{4, 5, 6} {
		foreign := token(revision)
		foreign.GroupID = "0cc175b9"
		for what, err := range map[string]error{
			"Seal": x.fence.Seal(t.Context(), foreign),
			"Tx":   x.depositTx(t.Context(), x.fence, foreign, 1, 1),
			"Position": func() error {
				_, err := x.fence.Position(t.Context(), foreign, "orders")
				return err
			}(),
		} {
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
	if err := x.depositTx(t.Context(), x.fence, token(5), 1, 1); err != nil {
		t.Errorf("a foreign group has shut out the owner: %v", err)
	}
	x.wantBalance(t, 1, 1)
}

// Two clusters that meet on a shard that was never sealed: one has it, and is not disturbed.
func testForeignRace(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	rounds := 20
	if !s.manyWriters() {
		rounds = 200 // they seldom meet
	}
	for round := range rounds {
		toks := [2]shard.Token{token(5), token(6)}
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
		if err := x.depositTx(t.Context(), x.fence, toks[first], 1, 1); err != nil {
			t.Errorf("the first: %v", err)
		}
	}
	x.wantBalance(t, 1, rounds)
}

// Somebody has cleaned up by hand, in one of the two tables. The next tenure mends that.
func testMissingRows(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	x.seal(t, token(1))
	for i, suffix := range []string{"", "_wanted"} {
		now, next := token(int64(i)+1), token(int64(i)+2)
		x.exec(t, "DELETE FROM "+x.conf.Table+suffix)
		wantIs(t, x.depositTx(t.Context(), x.fence, now, 1, 1), fence.ErrNotSealed)
		x.seal(t, next)
		if err := x.depositTx(t.Context(), x.fence, next, 2, 1); err != nil {
			t.Errorf("sealed again: %v", err)
		}
	}
	x.wantBalance(t, 1, 0)
	x.wantBalance(t, 2, 2)
}

func testBadArguments(t *testing.T, s Server) {
	x := newFixture(t, s, fence.SQLConfig{})
	ctx := t.Context()
	bad := map[string]func(*shard.Token){
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
	}
	for name, spoil := range bad {
		tok := token(5)
		spoil(&tok)
		wantIs(t, x.fence.Seal(ctx, tok), fence.ErrToken)
		wantIs(t, x.depositTx(ctx, x.fence, tok, 1, 1), fence.ErrToken)
		_, err := x.fence.Position(ctx, tok, "orders")
		wantIs(t, err, fence.ErrToken)
		if got := cas.OutcomeOf(err); got != cas.NotApplied {
			t.Errorf("%s: outcome %s, want not applied", name, got)
		}
	}
	for _, lineage := range []int{-1, 0, shard.MaxLineage + 1} {
		if err := x.fence.SealAll(ctx, "accounts", lineage); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("SealAll in lineage %d: got %v (%s), want an error that is not applied", lineage, err, cas.OutcomeOf(err))
		}
	}
	if err := x.fence.SealAll(ctx, "", 1); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("SealAll without a group: got %v (%s), want an error that is not applied", err, cas.OutcomeOf(err))
	}
	x.seal(t, token(5))
	for _, stream := range []string{"", "\x00", "\xff", string(make([]byte, 201))} {
		if _, err := x.fence.Position(ctx, token(5), stream); err == nil {
			t.Errorf("Position of %q: got nil, want an error", stream)
		}
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	for what, err := range map[string]error{
		"Seal": x.fence.Seal(done, token(6)),
		"Tx":   x.depositTx(done, x.fence, token(5), 1, 1),
	} {
		wantIs(t, err, context.Canceled)
		_ = what
	}
	x.wantBalance(t, 1, 0)
}
