package objectfence_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/objectfence"
	"github.com/tenure-go/tenure/shard"
)

// accounts are the suite's: each shard's object holds its share of each account.
type accounts struct {
	*objectfence.Fence
	bucket *bucket
	mu     sync.Mutex // guards open, and Objects in it
	open   map[shard.Token]*objectfence.Object
}

func TestFence(t *testing.T) {
	fencetest.Run(t, fencetest.Subject{New: func(t testing.TB, _ fencetest.Options) fencetest.Fence {
		f, b := newFence(t)
		return &accounts{Fence: f, bucket: b, open: make(map[shard.Token]*objectfence.Object)}
	}})
}

func (a *accounts) Seal(ctx context.Context, tok shard.Token) error {
	o, err := a.Fence.Seal(ctx, tok)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[tok] = o
	return nil
}

func (a *accounts) Add(ctx context.Context, tok shard.Token, account, n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.open[tok]
	if o == nil {
		return a.Check(ctx, tok)
	}
	var balances [10]int
	if len(o.Body()) > 0 {
		if err := json.Unmarshal(o.Body(), &balances); err != nil {
			return err
		}
	}
	balances[account] += n
	body, err := json.Marshal(balances)
	if err != nil {
		return err
	}
	return o.Write(ctx, body)
}

func (a *accounts) Balance(_ context.Context, account int) (sum int, err error) {
	a.bucket.mu.Lock()
	defer a.bucket.mu.Unlock()
	for _, content := range a.bucket.objects {
		_, body, _ := strings.Cut(string(content), "\n")
		var balances [10]int
		if body == "" {
			continue
		}
		if err := json.Unmarshal([]byte(body), &balances); err != nil {
			return 0, err
		}
		sum += balances[account]
	}
	return sum, nil
}
