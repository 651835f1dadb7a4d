package etcdkv

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
)

// Store is a cas.Store on etcd. Safe for concurrent use. Make one with New.
type Store struct {
	client *clientv3.Client
	clock  *clock

	reads  pb.KVClient    // repeated by the client where that is safe
	writes pb.KVClient    // sent once: see once
	leases pb.LeaseClient // sent once

	life context.Context // ends with Close
	end  context.CancelFunc
	wg   sync.WaitGroup // watches

	cluster atomic.Uint64 // whose answers the last List was; 0: none yet

	mu      sync.Mutex          // guards watches
	watches map[*watch]struct{} // nil once closed
}

var (
	_ cas.Store   = (*Store)(nil)
	_ cas.Adviser = (*Store)(nil)
)

// New returns a store on the etcd that c is connected to, or will be: it does no I/O. It
// uses c's connection and leaves c's own watches alone.
func New(c *clientv3.Client) *Store {
	conn := c.ActiveConnection()
	life, end := context.WithCancel(context.Background())
	return &Store{
		client:  c,
		clock:   systemClock(),
		reads:   clientv3.RetryKVClient(c),
		writes:  pb.NewKVClient(conn),
		leases:  pb.NewLeaseClient(conn),
		life:    life,
		end:     end,
		watches: make(map[*watch]struct{}),
	}
}

// Close ends s's watches, and makes requests fail with cas.ErrClosed. It does not close the
// client. On return s has no goroutine left. Idempotent.
func (s *Store) Close() error {
	s.mu.Lock()
	s.watches = nil
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
	return nil
}

// Now is cas.Clock: the time since s was made, suspend included.
func (s *Store) Now() time.Duration { return s.clock.Now() }

// open refuses a request that can't or need not be sent.
func (s *Store) open(ctx context.Context, what string) error {
	if s.life.Err() != nil {
		return fmt.Errorf("etcdkv: %s: %w", what, cas.ErrClosed)
	}
	if ctx.Err() != nil {
		return &failure{what: what + " not sent", is: cas.ErrUnavailable, cause: context.Cause(ctx)}
	}
	return nil
}
