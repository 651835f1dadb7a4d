package fencetest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/shard"
)

// gateServer is a server of one's own behind a Gate.
type gateServer struct {
	fence.Gate
	mu       sync.Mutex // guards accounts
	accounts [10]int
}

func (s *gateServer) Add(ctx context.Context, tok shard.Token, account, n int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.Do(tok, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.accounts[account] += n
		return nil
	})
}

func (s *gateServer) Balance(_ context.Context, account int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accounts[account], nil
}

func TestGate(t *testing.T) {
	fencetest.Run(t, fencetest.Subject{New: func(testing.TB, fencetest.Options) fencetest.Fence { return new(gateServer) }})
}
