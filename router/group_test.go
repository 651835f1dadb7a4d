package router

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// group is a group in a store, written by hand: what nodes would have written.
type group struct {
	t      testing.TB
	server *memkv.Server
	store  *memkv.Client // the writer's
	decl   shard.Group
	keys   layout.Keys
	leases map[string]cas.LeaseID
}

func newGroup(t testing.TB, shards int) *group {
	t.Helper()
	g := emptyGroup(t, shards)
	g.config(0)
	return g
}

// emptyGroup is one that nobody has joined yet.
func emptyGroup(t testing.TB, shards int) *group {
	t.Helper()
	server := memkv.NewServer(memkv.Config{})
	g := &group{
		t:      t,
		server: server,
		store:  server.Client(),
		decl:   shard.Group{Name: "accounts", Shards: shards},
		leases: make(map[string]cas.LeaseID),
	}
	g.keys = layout.For(g.decl)
	t.Cleanup(func() { g.store.Close() })
	return g
}

func (g *group) commit(ops ...cas.Op) int64 {
	g.t.Helper()
	rev, err := g.store.Commit(context.Background(), cas.Txn{Then: ops})
	if err != nil {
		g.t.Fatalf("commit: %v", err)
	}
	return rev
}

func (g *group) config(lineage int) {
	g.t.Helper()
	g.configAs(layout.Config{Format: 1, ID: "g1", Shards: g.decl.Shards, Hash: shard.XXH64, Lineage: lineage})
}

func (g *group) configAs(c layout.Config) {
	g.t.Helper()
	g.commit(cas.Put(g.keys.Config(), layout.Encode(c)))
}

// join writes a member's record, under a lease of its own the first time.
func (g *group) join(m shard.Member) {
	g.t.Helper()
	if g.leases[m.ID] == 0 {
		l, err := g.store.Grant(context.Background(), 1000*time.Hour)
		if err != nil {
			g.t.Fatalf("grant: %v", err)
		}
		g.leases[m.ID] = l.ID
	}
	m.Weight = 1
	g.commit(cas.PutLeased(g.keys.Member(m.ID), layout.Encode(layout.Member{Format: 1, Member: m}), g.leases[m.ID]))
}

// claim writes that id owns shards, and returns the epoch under lineage 0.
func (g *group) claim(id string, shards ...int) shard.Epoch {
	g.t.Helper()
	var rev int64
	for len(shards) > 0 {
		n := min(len(shards), cas.MaxOps)
		var ops []cas.Op
		for _, s := range shards[:n] {
			ops = append(ops, cas.PutLeased(g.keys.Claim(s), layout.Encode(layout.Claim{Format: 1, Member: id}), g.leases[id]))
		}
		rev = g.commit(ops...)
		shards = shards[n:]
	}
	return shard.Epoch(rev)
}

// die ends id's lease, and with it all that was under it.
func (g *group) die(id string) {
	g.t.Helper()
	if err := g.store.Revoke(context.Background(), g.leases[id]); err != nil {
		g.t.Fatalf("revoke: %v", err)
	}
	delete(g.leases, id)
}

// open follows the group over a connection of its own.
func (g *group) open() (*Table, *memkv.Client) {
	g.t.Helper()
	c := g.server.Client()
	table, err := Open(context.Background(), c, g.decl, nil)
	if err != nil {
		g.t.Fatalf("Open: %v", err)
	}
	g.t.Cleanup(func() { table.Close(); c.Close() })
	return table, c
}

// keyOf is some key of shard s.
func (g *group) keyOf(s int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("key-%d", i); g.decl.Of(key) == s {
			return key
		}
	}
}

// owners are the IDs by shard, "" for nobody.
func owners(t *Table) []string {
	ids := make([]string, t.group.Shards)
	for s := range ids {
		if o := t.board.Owner(s); o != nil {
			ids[s] = o.Member.ID
		}
	}
	return ids
}
