package ownertest

import (
	"context"
	"sync"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// registry remembers the tenures that handlers were given.
type registry struct {
	mu      sync.Mutex // guards tenures
	tenures map[shard.Token]*owner.Tenure
}

func newRegistry() *registry { return &registry{tenures: make(map[shard.Token]*owner.Tenure)} }

func (r *registry) get(token shard.Token) *owner.Tenure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tenures[token]
}

// watch is h with its tenures remembered.
func (r *registry) watch(h owner.Handler) owner.Handler {
	if h == nil {
		return nil
	}
	return func(ctx context.Context, t *owner.Tenure) error {
		r.mu.Lock()
		r.tenures[t.Token()] = t
		r.mu.Unlock()
		return h(ctx, t)
	}
}

// prepare is c with the handlers that its Prepare returns watched too.
func (r *registry) prepare(c owner.Config) owner.Config {
	prepare := c.Prepare
	if prepare == nil {
		return c
	}
	c.Prepare = func(ctx context.Context, shard int) (owner.Handler, error) {
		h, err := prepare(ctx, shard)
		return r.watch(h), err
	}
	return c
}
