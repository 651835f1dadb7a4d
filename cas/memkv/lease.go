package memkv

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
)

type lease struct {
	id       cas.LeaseID
	ttl      time.Duration
	deadline time.Time
	timer    *time.Timer
	keys     map[string]struct{}
}

func (s *Server) grant(ttl time.Duration) (cas.Lease, error) {
	if ttl <= 0 {
		return cas.Lease{}, fmt.Errorf("memkv: grant of a lease with TTL %v, must be above 0: %w", ttl, cas.ErrInvalid)
	}
	ttl = max(ttl, s.config.MinTTL)
	if over := ttl % s.config.TTLUnit; over != 0 {
		ttl += s.config.TTLUnit - over
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return cas.Lease{}, fmt.Errorf("memkv: grant of a lease: %w", cas.ErrNoSpace)
	}
	s.nextID++
	l := &lease{id: s.nextID, ttl: ttl, keys: make(map[string]struct{})}
	s.leases[l.id] = l
	s.start(l)
	return cas.Lease{ID: l.id, TTL: ttl, Rev: s.log.tail().rev}, nil
}

// start needs s.mu. It gives l its full TTL.
func (s *Server) start(l *lease) {
	wait := l.ttl + s.config.ExpiryLag
	l.deadline = time.Now().Add(wait)
	if l.timer != nil {
		l.timer.Reset(wait)
		return
	}
	life := s.life
	l.timer = time.AfterFunc(wait, func() { s.expire(l.id, life) })
}

// expire is the timer's. A renewal may have come between its firing and its getting the lock.
func (s *Server) expire(id cas.LeaseID, life int) {
	s.mu.Lock()
	l := s.leases[id]
	if l == nil || s.life != life {
		s.mu.Unlock()
		return
	}
	if left := time.Until(l.deadline); left > 0 {
		l.timer.Reset(left)
		s.mu.Unlock()
		return
	}
	woken := s.end(l)
	s.mu.Unlock()
	if woken != nil {
		close(woken.done)
	}
}

func (s *Server) renew(id cas.LeaseID) (cas.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[id]
	if l == nil {
		return cas.Lease{}, fmt.Errorf("memkv: renewal of lease %x: %w", id, cas.ErrLeaseNotFound)
	}
	s.start(l)
	return cas.Lease{ID: id, TTL: l.ttl, Rev: s.log.tail().rev}, nil
}

func (s *Server) revoke(id cas.LeaseID) error {
	s.mu.Lock()
	l := s.leases[id]
	if l == nil {
		s.mu.Unlock()
		return fmt.Errorf("memkv: revocation of lease %x: %w", id, cas.ErrLeaseNotFound)
	}
	woken := s.end(l)
	s.mu.Unlock()
	if woken != nil {
		close(woken.done)
	}
	return nil
}

// Expire ends a lease before its time, as if its holder had stopped renewing it, and tells
// nobody but the watches. It reports whether the lease was there.
func (s *Server) Expire(id cas.LeaseID) bool { return s.revoke(id) == nil }

// end needs s.mu. All keys of the lease go in one revision.
func (s *Server) end(l *lease) *revision {
	l.timer.Stop()
	delete(s.leases, l.id)
	ops := make([]cas.Op, 0, len(l.keys))
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		ops = append(ops, cas.Delete(key))
	}
	_, woken, _ := s.change(ops)
	return woken
}

// attach needs s.mu. It moves key from one lease to another; 0 is none. The lease that a key
// is taken from may be the one that is ending.
func (s *Server) attach(key string, from, to cas.LeaseID) {
	if l := s.leases[from]; l != nil {
		delete(l.keys, key)
	}
	if l := s.leases[to]; l != nil {
		l.keys[key] = struct{}{}
	}
}
