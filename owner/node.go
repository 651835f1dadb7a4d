package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// Node is a process's membership in a group: it joins, owns what the planner grants it, and hands
// over what is to move. Make it with New and start it with Run. Safe for concurrent use.
type Node struct {
	config  Config // defaults applied
	store   cas.Store
	clock   cas.Clock
	group   shard.Group
	keys    layout.Keys
	handler Handler
	log     *slog.Logger

	mail     *mailbox
	board    *layout.Board // who owns what, as seen
	moved    broadcast     // the board shows a later revision
	stations []atomic.Pointer[station]
	trust    atomic.Int64 // clock time until which gates admit
	turned   atomic.Int64 // clock time when the loop last turned
	ran      atomic.Bool
	joined   atomic.Bool
	leaving  atomic.Bool
	over     chan struct{} // Run has ended, or ends: nobody is let in any more

	oldest   atomic.Pointer[string] // member that plans
	draining atomic.Bool            // this node's record says so
	counters counters
}

// New checks everything that needs no store, all faults joined. It does no I/O. Run starts the node.
func New(s cas.Store, g shard.Group, h Handler, c Config) (*Node, error) {
	g = g.WithDefaults()
	c, err := c.withDefaults()
	if s == nil {
		err = errors.Join(errors.New("owner: New needs a store, got nil"), err)
	}
	if h == nil {
		err = errors.Join(err, errors.New("owner: New needs a handler, got nil"))
	}
	if bad := g.Validate(); bad != nil {
		err = errors.Join(err, fmt.Errorf("owner: %w", bad))
	}
	if err != nil {
		return nil, err
	}
	n := &Node{
		config:   c,
		store:    s,
		clock:    s,
		group:    g,
		keys:     layout.For(g),
		handler:  h,
		log:      c.Logger.With("group", g.Name, "member", c.ID),
		mail:     newMailbox(),
		board:    layout.NewBoard(g.Shards),
		stations: make([]atomic.Pointer[station], g.Shards),
		over:     make(chan struct{}),
	}
	n.moved.init()
	n.oldest.Store(new(string))
	return n, nil
}

// Run joins the group and serves until ctx ends, or until it can't; then it hands every shard over,
// leaves and returns. It may be called once.
//
// It waits, and tells the Logger so, while the store can't be reached: also at the start, where only ctx
// bounds the wait. A store that refuses the credentials or permission to join is an error at once. nil is a leave after which no shard waits for this node. Otherwise the error is a *ConfigError, an
// *IDTakenError (the other still renews after two TTL), a *RestoredError, or says what in the store can't be worked
// with, or that shards were left behind because the store could not be reached.
//
// When ctx ends Run takes at most about 15 s with default timeouts; with NeverForce, as long as the slowest handler. It
// stops no server: router.Serve does all, in order. When Run returns, nothing of the node's runs any more, save
// handlers and preparations that ignore their context for longer than DrainTimeout; the log counts them.
func (n *Node) Run(ctx context.Context) error {
	if n.ran.Swap(true) {
		return errors.New("owner: Run was called before: a Node runs once, make another with New")
	}
	return newLoop(n).run(ctx)
}

// Group is what the node was made for, defaults applied.
func (n *Node) Group() shard.Group { return n.group }

// WaitTimeout is how long Enter may wait, defaults applied.
func (n *Node) WaitTimeout() time.Duration { return n.config.WaitTimeout }

// Ready is nil from the first join until the node leaves, whether the store can be reached or not: if
// readiness followed the store, one outage of it would take all nodes out of service at once.
func (n *Node) Ready() error {
	select {
	case <-n.over:
		return errors.New("owner: node has stopped")
	default:
	}
	switch {
	case n.leaving.Load():
		return errors.New("owner: node is leaving")
	case !n.joined.Load():
		return errors.New("owner: node has not joined yet")
	}
	return nil
}

// Live is nil while the node's loop turns; it asks no store. One that has stuck also stops to renew, so
// its shards go elsewhere by themselves.
func (n *Node) Live() error {
	turned := time.Duration(n.turned.Load())
	if !n.ran.Load() || turned == 0 {
		return nil // not started: nothing is stuck
	}
	select {
	case <-n.over:
		return nil
	default:
	}
	if idle := n.clock.Now() - turned; idle > n.config.TTL {
		return fmt.Errorf("owner: node's loop has not turned for %v", idle.Round(time.Millisecond))
	}
	return nil
}

func (n *Node) trustUntil() time.Duration { return time.Duration(n.trust.Load()) }

// station is s's, made if need be.
func (n *Node) station(s int) *station {
	if st := n.stations[s].Load(); st != nil {
		return st
	}
	st := new(station)
	st.change.init()
	if n.stations[s].CompareAndSwap(nil, st) {
		return st
	}
	return n.stations[s].Load()
}
