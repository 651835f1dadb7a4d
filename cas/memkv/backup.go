package memkv

import (
	"maps"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Backup is what a server held at one revision. The zero value is an empty store.
type Backup struct {
	rev    int64
	items  map[string]cas.Entry
	leases map[cas.LeaseID]time.Duration
	nextID cas.LeaseID
}

// Backup returns what s holds now.
func (s *Server) Backup() Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Backup{
		rev:    s.log.tail().rev,
		items:  make(map[string]cas.Entry),
		leases: make(map[cas.LeaseID]time.Duration),
		nextID: s.nextID,
	}
	for e := range s.index.under("") {
		b.items[e.Key] = *e
	}
	for id, l := range s.leases {
		b.leases[id] = l.ttl
	}
	return b
}

// Restore puts s back to b: revisions turn back, and what came after is gone. cluster is the
// identity from now on; 0 keeps the present one, as a restore of etcd with the same token and
// addresses does. Leases get their full TTL. As with etcd, watches connect anew at the place
// where they were: until the store's revisions have passed it they see nothing.
func (s *Server) Restore(b Backup, cluster uint64) {
	s.mu.Lock()
	old := s.log.tail()
	s.life++
	for _, l := range s.leases {
		l.timer.Stop()
	}
	s.log = newLog(max(b.rev, 1))
	s.index = newIndex()
	s.leases = make(map[cas.LeaseID]*lease)
	s.nextID = max(s.nextID, b.nextID)
	if cluster != 0 {
		s.cluster = cluster
	}
	for id, ttl := range b.leases {
		l := &lease{id: id, ttl: ttl, keys: make(map[string]struct{})}
		s.leases[id] = l
		s.start(l)
	}
	for e := range maps.Values(b.items) {
		s.index.put(e)
		s.attach(e.Key, 0, e.Lease)
	}
	s.mu.Unlock()
	close(old.done)
}
