package memkv

import (
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Kind is what a request asks for.
type Kind uint8

// The kinds of request.
const (
	Get Kind = iota
	List
	Digest
	Commit
	Grant
	Renew
	Revoke
	Progress
)

func (k Kind) String() string {
	names := [...]string{"get", "list", "digest", "commit", "grant", "renew", "revoke", "progress"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown request"
}

// Call is a request that is about to be sent.
type Call struct {
	Kind  Kind
	Key   string      // Get's key, or the prefix of List and Digest
	Txn   cas.Txn     // Commit's; not to be modified
	Lease cas.LeaseID // Renew's and Revoke's
}

// writes reports whether a lost reply leaves the caller in doubt about what the store holds.
func (c Call) writes() bool {
	switch c.Kind {
	case Commit:
		return len(c.Txn.Then) > 0
	case Grant, Renew, Revoke:
		return true
	}
	return false
}

// Fate is what becomes of a request. The zero value: it arrives and is answered at once.
type Fate struct {
	// Delay is how long the request travels. A write whose caller gives up meanwhile still
	// arrives and is applied: what "uncertain" means.
	Delay time.Duration
	// Reply is how long the reply travels.
	Reply time.Duration
	// Loss says what gets lost.
	Loss Loss
	// Hang makes a lost request or reply go unnoticed until the caller's context ends.
	// Otherwise the caller sees a broken connection at once.
	Hang bool
}

// Loss is which part of an exchange is lost.
type Loss uint8

const (
	// Nothing is lost.
	Nothing Loss = iota
	// Connection: refused. Nothing is sent, and the caller gets cas.ErrUnavailable.
	Connection
	// Request: it is sent and never arrives. The caller can't tell: cas.ErrUncertain.
	Request
	// Reply: the request is carried out. The caller can't tell: cas.ErrUncertain.
	Reply
)

// Intercept lets f decide the fate of each request that c sends from now on; nil ends that.
// f runs in the caller's goroutine, possibly in several at once.
func (c *Client) Intercept(f func(Call) Fate) {
	if f == nil {
		c.fate.Store(nil)
		return
	}
	c.fate.Store(&f)
}

// Cut parts c from the server, or joins them again. While cut, requests hang until their
// context ends or the cut does, and then they arrive; watches are silent, and afterwards
// go on where they stopped, or break with cas.ErrCompacted if that is compacted.
func (c *Client) Cut(cut bool) {
	c.mu.Lock()
	old := c.link.Load()
	if old.cut == cut {
		c.mu.Unlock()
		return
	}
	c.link.Store(&link{cut: cut, flipped: make(chan struct{})})
	c.mu.Unlock()
	close(old.flipped)
}

// link is one state of the connection, until flipped is closed.
type link struct {
	cut     bool
	flipped chan struct{}
}

// Lag makes events reach c's watches d after their commit. Defaults to 0.
func (c *Client) Lag(d time.Duration) { c.lag.Store(int64(d)) }

// Withhold keeps from c's watches every event that drop returns true for, as etcd has lost
// deletions around a compaction (etcd#18089); nil ends that. Revisions go on. drop runs in
// the watches' goroutines.
func (c *Client) Withhold(drop func(cas.Event) bool) {
	if drop == nil {
		c.drop.Store(nil)
		return
	}
	c.drop.Store(&drop)
}

// Break ends c's present watches with err: cas.ErrCompacted, cas.ErrNoLeader.
func (c *Client) Break(err error) {
	c.mu.Lock()
	watches := make([]*watch, 0, len(c.watches))
	for w := range c.watches {
		watches = append(watches, w)
	}
	c.mu.Unlock()
	for _, w := range watches {
		w.stop(err)
	}
}

// SetClock replaces c's lease clock: a fast, slow or suspended machine; nil restores it. now
// must not run backwards, and must be safe for concurrent use.
func (c *Client) SetClock(now func() time.Duration) {
	if now == nil {
		c.clock.Store(nil)
		return
	}
	c.clock.Store(&now)
}
