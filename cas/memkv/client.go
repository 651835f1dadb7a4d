package memkv

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Client is one node's connection to a server. Safe for concurrent use. Make one with New or
// Server.Client.
type Client struct {
	server *Server
	closed chan struct{}
	wg     sync.WaitGroup // watches

	link  atomic.Pointer[link]
	fate  atomic.Pointer[func(Call) Fate]
	drop  atomic.Pointer[func(cas.Event) bool]
	clock atomic.Pointer[func() time.Duration]
	lag   atomic.Int64

	// mu guards watches (nil once closed), and the change of link.
	mu      sync.Mutex
	watches map[*watch]struct{}
}

var _ cas.Store = (*Client)(nil)

// Client returns a new connection, without faults.
func (s *Server) Client() *Client {
	c := &Client{
		server:  s,
		closed:  make(chan struct{}),
		watches: make(map[*watch]struct{}),
	}
	c.link.Store(&link{flipped: make(chan struct{})})
	return c
}

// Server returns the server that c is connected to.
func (c *Client) Server() *Server { return c.server }

// Close ends c's watches and makes requests fail with cas.ErrClosed. The server and other
// clients go on. On return c has no goroutine left. Idempotent.
func (c *Client) Close() error {
	c.mu.Lock()
	first := c.watches != nil
	c.watches = nil
	c.mu.Unlock()
	if first {
		close(c.closed)
	}
	c.wg.Wait()
	return nil
}

// Now is cas.Clock: time since the server was made, or what SetClock says.
func (c *Client) Now() time.Duration {
	if now := c.clock.Load(); now != nil {
		return (*now)()
	}
	return time.Since(c.server.epoch)
}

// Get is cas.KV.
func (c *Client) Get(ctx context.Context, key string) (cas.Entry, error) {
	if key == "" {
		return cas.Entry{}, fmt.Errorf("memkv: get of an empty key: %w", cas.ErrInvalid)
	}
	return send(ctx, c, Call{Kind: Get, Key: key}, func() (cas.Entry, error) {
		return c.server.get(key), nil
	})
}

// List is cas.KV.
func (c *Client) List(ctx context.Context, prefix string) (cas.Snapshot, error) {
	return send(ctx, c, Call{Kind: List, Key: prefix}, func() (cas.Snapshot, error) {
		return c.server.list(prefix), nil
	})
}

// Digest is cas.KV.
func (c *Client) Digest(ctx context.Context, prefix string, rev int64) (cas.Digest, error) {
	return send(ctx, c, Call{Kind: Digest, Key: prefix}, func() (cas.Digest, error) {
		return c.server.digest(prefix, rev)
	})
}

// Commit is cas.KV.
func (c *Client) Commit(ctx context.Context, t cas.Txn) (int64, error) {
	return send(ctx, c, Call{Kind: Commit, Txn: t}, func() (int64, error) {
		return c.server.commit(t)
	})
}

// Grant is cas.Leaser.
func (c *Client) Grant(ctx context.Context, ttl time.Duration) (cas.Lease, error) {
	return send(ctx, c, Call{Kind: Grant}, func() (cas.Lease, error) {
		return c.server.grant(ttl)
	})
}

// Renew is cas.Leaser.
func (c *Client) Renew(ctx context.Context, id cas.LeaseID) (cas.Lease, error) {
	return send(ctx, c, Call{Kind: Renew, Lease: id}, func() (cas.Lease, error) {
		return c.server.renew(id)
	})
}

// Revoke is cas.Leaser.
func (c *Client) Revoke(ctx context.Context, id cas.LeaseID) error {
	_, err := send(ctx, c, Call{Kind: Revoke, Lease: id}, func() (struct{}, error) {
		return struct{}{}, c.server.revoke(id)
	})
	return err
}

// Progress is cas.Watcher.
func (c *Client) Progress(ctx context.Context) error {
	_, err := send(ctx, c, Call{Kind: Progress}, func() (struct{}, error) {
		c.mu.Lock()
		watches := make([]*watch, 0, len(c.watches))
		for w := range c.watches {
			watches = append(watches, w)
		}
		c.mu.Unlock()
		for _, w := range watches {
			w.ask()
		}
		return struct{}{}, nil
	})
	return err
}
