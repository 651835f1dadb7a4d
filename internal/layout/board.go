package layout

import (
	"sync/atomic"

	"github.com/tenure-go/tenure/shard"
)

// Board shows who owns each shard of a group to any number of readers, without lock or
// allocation. One goroutine keeps it up from its View; any may read.
type Board struct {
	owners  []atomic.Pointer[Owned]
	rev     atomic.Int64
	lineage atomic.Int64

	// The writer's own.
	members map[string]*shard.Member // one immutable record for all of a member's shards
	last    *Owned                   // what was shown last: the claims of one transaction share it
}

// Owned is who owns a shard, under what epoch. Immutable.
type Owned struct {
	Member *shard.Member
	Epoch  shard.Epoch
}

// NewBoard returns an empty board for shards shards.
func NewBoard(shards int) *Board {
	return &Board{owners: make([]atomic.Pointer[Owned], shards), members: make(map[string]*shard.Member)}
}

// Owner is nil while nobody is known to own s.
func (b *Board) Owner(s int) *Owned { return b.owners[s].Load() }

// Rev is the revision that the board shows. Every shard is at least as new.
func (b *Board) Rev() int64 { return b.rev.Load() }

// Lineage is the config's, as shown.
func (b *Board) Lineage() int { return int(b.lineage.Load()) }

// Publish shows what changed in v; t is what Apply touched.
func (b *Board) Publish(v *View, t *Touched) {
	for _, id := range t.Members {
		b.publishMember(v, id)
	}
	if t.Config {
		b.publishAll(v) // the lineage is in every epoch
	} else {
		for _, s := range t.Shards {
			b.show(v, s)
		}
	}
	b.lineage.Store(int64(v.Config.Lineage))
	b.rev.Store(v.Rev)
}

// publishMember shows a member's new record at its shards, wherever they are.
func (b *Board) publishMember(v *View, id string) {
	was := b.members[id]
	m, ok := v.Members[id]
	if ok && m.Err == nil {
		record := m.Member.Member
		b.members[id] = &record
	} else {
		delete(b.members, id)
	}
	if was == nil && v.Held(m.Lease) == 0 {
		return // it joins
	}
	for s := range b.owners {
		old := b.owners[s].Load()
		if was != nil && old != nil && old.Member == was || ok && v.Claims[s].Rev != 0 && v.Claims[s].Lease == m.Lease {
			b.show(v, s)
		}
	}
}

// PublishAll shows all of v.
func (b *Board) PublishAll(v *View) {
	clear(b.members)
	for id, m := range v.Members {
		if m.Err == nil {
			record := m.Member.Member
			b.members[id] = &record
		}
	}
	b.publishAll(v)
	b.lineage.Store(int64(v.Config.Lineage))
	b.rev.Store(v.Rev)
}

func (b *Board) publishAll(v *View) {
	for s := range b.owners {
		b.show(v, s)
	}
}

func (b *Board) show(v *View, s int) {
	var member *shard.Member
	claim := v.Claims[s]
	epoch := v.Epoch(claim.Rev)
	if id, ok := v.MemberOf(claim.Lease); ok && epoch != 0 {
		member = b.members[id]
	}
	old := b.owners[s].Load()
	switch {
	case member == nil:
		if old != nil {
			b.owners[s].Store(nil)
		}
	case old == nil || old.Member != member || old.Epoch != epoch:
		if b.last == nil || b.last.Member != member || b.last.Epoch != epoch {
			b.last = &Owned{Member: member, Epoch: epoch}
		}
		b.owners[s].Store(b.last)
	}
}
