package fencetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// impatience bounds what must not happen, as patience does, generously, what must.
const impatience = 150 * time.Millisecond

func (x *fixture) patience() time.Duration {
	if x.Patience > 0 {
		return x.Patience
	}
	return 30 * time.Second
}

// fixture is the fence that a test works on.
type fixture struct {
	Subject
	tb    testing.TB
	level string
	fence Fence
}

func (x *fixture) transactional() Transactional { return x.fence.(Transactional) }

func (x *fixture) seal(t T, tok shard.Token) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), x.patience())
	defer cancel()
	if err := x.fence.Seal(ctx, tok); err != nil {
		t.Fatalf("Seal(%s): %v", tok, err)
	}
}

// add is one guarded write, with patience.
func (x *fixture) add(t T, tok shard.Token, account, n int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), x.patience())
	defer cancel()
	return x.fence.Add(ctx, tok, account, n)
}

func (x *fixture) balance(t T, account int) int {
	t.Helper()
	n, err := x.fence.Balance(t.Context(), account)
	if err != nil {
		t.Fatalf("Balance(%d): %v", account, err)
	}
	return n
}

func (x *fixture) wantBalance(t T, account, want int) {
	t.Helper()
	if got := x.balance(t, account); got != want {
		t.Errorf("balance of account %d: got %d, want %d", account, got, want)
	}
}

// begin begins a transaction; the caller ends it.
func (x *fixture) begin(t T) Tx {
	t.Helper()
	tx, err := x.transactional().Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return tx
}

// Token is of shard 7 of group "accounts", in lineage 33: above what a double can tell apart.
func Token(revision int64) shard.Token {
	e, err := shard.NewEpoch(33, revision)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: e}
}

// wantFenced checks for a *FencedError with just these epochs.
func wantFenced(t T, err error, mine, current shard.Token) {
	t.Helper()
	e, ok := errors.AsType[*fence.FencedError](err)
	if !ok {
		t.Errorf("got %v, want a FencedError", err)
		return
	}
	if e.Mine != mine.Epoch || e.Current != current.Epoch {
		t.Errorf("got FencedError{Mine: %s, Current: %s}, want %s and %s", e.Mine, e.Current, mine.Epoch, current.Epoch)
	}
}

func wantIs(t T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}

func await[V any](t T, x *fixture, c <-chan V) V {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(x.patience()):
		t.Fatalf("waited in vain")
		panic("unreachable")
	}
}
