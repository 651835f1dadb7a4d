package memkv

import (
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Config sets up a Server. The zero value is etcd with its defaults.
type Config struct {
	Cluster    uint64        // identity in Snapshot and Digest. Defaults to 1
	MinTTL     time.Duration // shortest TTL granted. Defaults to 2s, as etcd
	TTLUnit    time.Duration // granted TTLs are rounded up to a multiple. Defaults to 1s, as etcd
	ExpiryLag  time.Duration // from the end of a TTL to the expiry. Defaults to 0; etcd takes up to 500ms
	MaxRequest int           // bytes of keys and values in one transaction. Defaults to 1.5 MiB
	History    int           // revisions kept for watches and digests of the past. Defaults to 65536
}

func (c Config) withDefaults() Config {
	if c.Cluster == 0 {
		c.Cluster = 1
	}
	if c.MinTTL <= 0 {
		c.MinTTL = 2 * time.Second
	}
	if c.TTLUnit <= 0 {
		c.TTLUnit = time.Second
	}
	if c.MaxRequest <= 0 {
		c.MaxRequest = 3 << 19
	}
	if c.History <= 0 {
		c.History = 1 << 16
	}
	return c
}

// Server holds the data. Safe for concurrent use. It needs no Close.
type Server struct {
	config Config
	epoch  time.Time // where clients' clocks start

	// mu guards everything below, and makes a transaction one step. Only memory is touched
	// while it is held.
	mu      sync.Mutex
	cluster uint64
	full    bool
	index   index
	log     log
	leases  map[cas.LeaseID]*lease
	nextID  cas.LeaseID
	life    int // grows with Restore: timers of an earlier life are void
}

// New returns a client of a server of its own.
func New() *Client { return NewServer(Config{}).Client() }

// NewServer returns an empty server, at revision 1 like an empty etcd.
func NewServer(c Config) *Server {
	c = c.withDefaults()
	return &Server{
		config:  c,
		epoch:   time.Now(),
		cluster: c.Cluster,
		index:   newIndex(),
		log:     emptyLog(),
		leases:  make(map[cas.LeaseID]*lease),
	}
}

// Revision is the revision of the latest change.
func (s *Server) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.tail().rev
}

// SetFull makes the server refuse puts and new leases with cas.ErrNoSpace, as etcd does once
// its quota is used up. Deletions, renewals and revocations go on.
func (s *Server) SetFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// Compact throws away the history up to rev. Later reads below rev, and watches that need a
// change at rev or below, fail with cas.ErrCompacted. A watch that is connected has been
// sent those changes already and goes on; one that is cut off breaks when it comes back.
// A rev that is compacted already is cas.ErrCompacted, one not reached yet cas.ErrFutureRev.
func (s *Server) Compact(rev int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.log.check(rev); err != nil {
		return err
	}
	if rev == s.log.first() {
		return cas.ErrCompacted
	}
	s.log.drop(rev)
	return nil
}
