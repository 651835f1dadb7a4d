// Package ownertest runs real nodes on an in-memory store, for tests of handlers and routes: with
// hand-offs, lost leases and partitions on demand.
//
// It works inside a testing/synctest bubble, where a TTL costs no time, and outside.
package ownertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// Cluster is a group's nodes on one store in memory. Make it with Start. Its methods fail the test
// where they can't do what they say; like the test's own, they are for the test's goroutine.
type Cluster struct {
	Store *memkv.Client // a connection of the test's own: for routers, tables and Tenure.Guard
	Nodes []*owner.Node

	t       testing.TB
	group   shard.Group
	server  *memkv.Server
	clients []*memkv.Client
	ids     []string
	cancels []context.CancelFunc
	done    []chan struct{}
	tenures *registry

	reachable []bool // by node: runs, and is not cut off
}

// patience is how long a Cluster waits for what it is asked to bring about, on the clock that the test
// runs on.
const patience = 2 * time.Minute

// Start runs n nodes until the test ends, and returns when every shard is ready. Every node gets h and c, with an ID, node-0
// and so on, and, unless c says otherwise, the shortest TTL and settle time that there are and the address node-0:80: nobody
// listens there, so a test of routes gives router.HTTPConfig a Transport that takes a request for that host to its node's handler.
func Start(t testing.TB, n int, g shard.Group, h owner.Handler, c owner.Config) *Cluster {
	t.Helper()
	if n < 1 {
		t.Fatalf("ownertest: Start with %d nodes: want at least 1", n)
	}
	server := memkv.NewServer(memkv.Config{})
	cl := &Cluster{
		Store:   server.Client(),
		t:       t,
		group:   g.WithDefaults(),
		server:  server,
		tenures: newRegistry(),
	}
	if c.TTL == 0 {
		c.TTL = 2 * time.Second
	}
	if c.Settle == 0 {
		c.Settle = 50 * time.Millisecond
	}
	if c.MinMembers == 0 {
		c.MinMembers = n
	}
	t.Cleanup(cl.stop)
	for i := range n {
		cl.add(i, h, c)
	}
	cl.Settle()
	return cl
}

func (cl *Cluster) add(i int, h owner.Handler, c owner.Config) {
	cl.t.Helper()
	c.ID = fmt.Sprintf("node-%d", i)
	if c.Address == "" {
		c.Address = c.ID + ":80"
	}
	client := cl.server.Client()
	node, err := owner.New(client, cl.group, cl.tenures.watch(h), cl.tenures.prepare(c))
	if err != nil {
		cl.t.Fatalf("ownertest: node %d: %v", i, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	cl.Nodes = append(cl.Nodes, node)
	cl.clients = append(cl.clients, client)
	cl.ids = append(cl.ids, c.ID)
	cl.cancels = append(cl.cancels, cancel)
	cl.done = append(cl.done, done)
	cl.reachable = append(cl.reachable, true)
	go func() {
		defer close(done)
		if err := node.Run(ctx); err != nil {
			cl.t.Errorf("ownertest: %s: %v", c.ID, err)
		}
	}()
}

// stop has every node leave, and waits for it.
func (cl *Cluster) stop() {
	for _, client := range cl.clients {
		client.Cut(false)
	}
	for _, cancel := range cl.cancels {
		cancel()
	}
	for _, done := range cl.done {
		<-done
	}
	for _, client := range cl.clients {
		client.Close()
	}
	cl.Store.Close()
}

// Tenure is the current one of key's owner. It stays readable after loss: keep it to play the zombie.
func (cl *Cluster) Tenure(key string) *owner.Tenure {
	cl.t.Helper()
	var found *owner.Tenure
	cl.await("a tenure for "+key, func() string {
		o := cl.look().owner(cl.group.Of(key))
		if o == nil {
			return "nobody owns it"
		}
		found = cl.tenures.get(o.token(cl))
		if found == nil {
			return o.id + " has not started"
		}
		return ""
	})
	return found
}

// Owner is the index in Nodes of key's owner.
func (cl *Cluster) Owner(key string) int {
	cl.t.Helper()
	o := cl.look().owner(cl.group.Of(key))
	if o == nil {
		cl.t.Fatalf("ownertest: nobody owns %q", key)
	}
	return cl.index(o.id)
}

// Move hands key's shard to a node, in good order, and returns when it is served there.
func (cl *Cluster) Move(key string, node int) {
	cl.t.Helper()
	s := cl.group.Of(key)
	pin := layout.Encode(layout.Pin{Format: layout.Format, Member: cl.ids[node]})
	_, err := cl.Store.Commit(context.Background(), cas.Txn{Then: []cas.Op{cas.Put(layout.For(cl.group).Pin(s), pin)}})
	if err != nil {
		cl.t.Fatalf("ownertest: move %q: %v", key, err)
	}
	cl.await(fmt.Sprintf("shard %d to be served by %s", s, cl.ids[node]), func() string {
		o := cl.look().owner(s)
		switch {
		case o == nil:
			return "nobody owns it"
		case o.id != cl.ids[node]:
			return o.id + " owns it"
		case !cl.serves(node, o.token(cl)):
			return "it is not ready there"
		}
		return ""
	})
}

// Lose expires the lease of key's owner at the store, unseen: the owner is cut off, and still thinks that it owns
// until its trust ends. Nobody owns the shard then: call Settle, and its tenure is a zombie's. Until the next
// owner has sealed, a fence still takes the old one's writes, and rightly. Cut(node, false) lets it see, and join again.
func (cl *Cluster) Lose(key string) {
	cl.t.Helper()
	v := cl.look()
	o := v.owner(cl.group.Of(key))
	if o == nil {
		cl.t.Fatalf("ownertest: lose %q: nobody owns it", key)
	}
	cl.Cut(cl.index(o.id), true)
	if !cl.server.Expire(o.lease) {
		cl.t.Fatalf("ownertest: lose %q: its lease is gone already", key)
	}
}

// Cut parts a node from the store, or joins them again.
func (cl *Cluster) Cut(node int, cut bool) {
	cl.clients[node].Cut(cut)
	cl.reachable[node] = !cut
}

// Leave has a node leave, and returns when it is gone.
func (cl *Cluster) Leave(node int) {
	cl.reachable[node] = false
	cl.cancels[node]()
	<-cl.done[node]
}

// Settle waits until every shard is served by a member, none is on its way (I9), and every node that is not cut off
// knows it.
func (cl *Cluster) Settle() {
	cl.t.Helper()
	cl.await("the group to settle", func() string { return cl.unsettled() })
}

func (cl *Cluster) unsettled() string {
	v := cl.look()
	for s := range v.Claims {
		o := v.owner(s)
		if o == nil {
			return fmt.Sprintf("nobody owns shard %d", s)
		}
		if !cl.serves(cl.index(o.id), o.token(cl)) {
			return fmt.Sprintf("shard %d is not ready at %s", s, o.id)
		}
	}
	for s := range v.Moves {
		return fmt.Sprintf("shard %d is on its way", s)
	}
	if why := cl.unbalanced(v); why != "" {
		return why
	}
	for i, n := range cl.Nodes {
		if cl.reachable[i] && n.Status().Rev < v.changed {
			return cl.ids[i] + " has not seen all of it"
		}
	}
	return ""
}

// unbalanced says what the planner has still to do.
func (cl *Cluster) unbalanced(v picture) string {
	in := shard.PlanInput{Owners: make([]string, len(v.Claims)), Pins: v.Pins}
	for id, m := range v.Members {
		in.Members = append(in.Members, shard.Candidate{ID: id, Weight: m.Weight, Draining: m.Draining, Opaque: m.Err != nil})
	}
	for s := range v.Claims {
		in.Owners[s] = v.owner(s).id
	}
	var p shard.Planner
	if plan := p.Plan(in); len(plan.Moves) > 0 {
		return fmt.Sprintf("%d shards are still to be moved", len(plan.Moves))
	}
	return ""
}

func (cl *Cluster) serves(node int, token shard.Token) bool {
	for _, ev := range cl.Nodes[node].Status().Shards {
		if ev.Token == token {
			return ev.State == owner.Ready
		}
	}
	return false
}

// index is the node that has id.
func (cl *Cluster) index(id string) int {
	for i := range cl.ids {
		if cl.ids[i] == id {
			return i
		}
	}
	cl.t.Fatalf("ownertest: %q is no node of this cluster", id)
	return -1
}

// await polls, as often as the store could change something.
func (cl *Cluster) await(what string, missing func() string) {
	cl.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		why := missing()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			cl.t.Fatalf("ownertest: waited %v for %s: %s", patience, what, why)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// picture is the group as the store has it.
type picture struct {
	*layout.View
	changed int64 // revision of the last change that is still there
}

func (cl *Cluster) look() picture {
	cl.t.Helper()
	k := layout.For(cl.group)
	snap, err := cl.Store.List(context.Background(), k.Prefix())
	if err != nil {
		cl.t.Fatalf("ownertest: %v", err)
	}
	p := picture{View: layout.Load(k, cl.group.Shards, snap)}
	for _, e := range snap.Entries {
		p.changed = max(p.changed, e.Rev)
	}
	return p
}

// held is a claim and who holds it.
type held struct {
	id      string
	lease   cas.LeaseID
	shard   int
	epoch   shard.Epoch
	groupID string
}

func (p picture) owner(s int) *held {
	m, ok := p.Holder(s)
	epoch := p.Epoch(p.Claims[s].Rev)
	if !ok || epoch == 0 {
		return nil
	}
	id, _ := p.MemberOf(m.Lease)
	return &held{id: id, lease: m.Lease, shard: s, epoch: epoch, groupID: p.Config.ID}
}

func (h *held) token(cl *Cluster) shard.Token {
	return shard.Token{Group: cl.group.Name, GroupID: h.groupID, Shard: h.shard, Epoch: h.epoch}
}
