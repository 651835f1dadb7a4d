package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// Admin is what an operator does to a group. It needs no node. Safe for concurrent use. Make it with NewAdmin.
type Admin struct {
	store cas.Store
	group shard.Group
	keys  layout.Keys
}

// NewAdmin returns an Admin of g, which must be valid: its methods say so if it is not.
func NewAdmin(s cas.Store, g shard.Group) *Admin {
	g = g.WithDefaults()
	return &Admin{store: s, group: g, keys: layout.For(g)}
}

// Members are the group's present ones, oldest first: the first is the planner.
func (a *Admin) Members(ctx context.Context) ([]shard.Member, error) {
	v, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(v.Members))
	for id := range v.Members {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y string) int { return cmp.Compare(v.Members[x].Created, v.Members[y].Created) })
	members := make([]shard.Member, len(ids))
	for i, id := range ids {
		members[i] = v.Members[id].Member.Member
		members[i].ID = id // also of a record that can't be read
	}
	return members, nil
}

// Pin has the planner keep s at a member, and "" lets it choose again. A pin to a member that is not
// there, or drains, waits without effect.
func (a *Admin) Pin(ctx context.Context, s int, member string) error {
	if err := a.group.Validate(); err != nil {
		return fmt.Errorf("owner: pin: %w", err)
	}
	if s < 0 || s >= a.group.Shards {
		return fmt.Errorf("owner: pin shard %d: group %s has shards 0 to %d", s, a.group.Name, a.group.Shards-1)
	}
	op := cas.Delete(a.keys.Pin(s))
	if member != "" {
		op = cas.Put(a.keys.Pin(s), layout.Encode(layout.Pin{Format: layout.Format, Member: member}))
	}
	if _, err := a.store.Commit(ctx, cas.Txn{Then: []cas.Op{op}}); err != nil {
		return fmt.Errorf("owner: pin shard %d: %w", s, err)
	}
	return nil
}

// Drain has every member that match reports true for give all its shards away, for as long as the drain
// stands, also after it has left and come back under the same ID. Members that are drained already stay so. It returns when the wish is
// recorded, not when the shards have gone.
func (a *Admin) Drain(ctx context.Context, match func(shard.Member) bool) error {
	return a.eachMatch(ctx, match, func(id string) cas.Op {
		return cas.Put(a.keys.Drain(id), layout.Encode(layout.Drain{Format: layout.Format, Why: "operator"}))
	})
}

// Undrain takes Drain back.
func (a *Admin) Undrain(ctx context.Context, match func(shard.Member) bool) error {
	return a.eachMatch(ctx, match, func(id string) cas.Op { return cas.Delete(a.keys.Drain(id)) })
}

func (a *Admin) eachMatch(ctx context.Context, match func(shard.Member) bool, op func(string) cas.Op) error {
	members, err := a.Members(ctx)
	if err != nil {
		return err
	}
	var ops []cas.Op
	for _, m := range members {
		if match(m) {
			ops = append(ops, op(m.ID))
		}
	}
	for batch := range slices.Chunk(ops, cas.MaxOps) {
		if _, err := a.store.Commit(ctx, cas.Txn{Then: batch}); err != nil {
			return fmt.Errorf("owner: drain: %w", err)
		}
	}
	return nil
}

// RaiseLineage makes every later epoch higher than any of lineage above: after the store was restored from a
// backup, its revisions have turned back, and fences have seen higher ones. Members may live: their
// tenures end and go on under the new lineage. Nothing changes if the lineage is above that already.
func (a *Admin) RaiseLineage(ctx context.Context, above int) error {
	return a.changeConfig(ctx, func(v *layout.View, c *layout.Config) error {
		c.Lineage = max(c.Lineage, above+1)
		return nil
	})
}

// Reset sets the number of shards and raises the lineage. Keys change their shards, so it is refused while a
// member lives. Then seal every fence of the group above the old lineages (fence.SealAll) before members, with the
// new number in their declaration, start again.
func (a *Admin) Reset(ctx context.Context, shards int) error {
	next := a.group
	next.Shards = shards
	if err := next.Validate(); err != nil {
		return fmt.Errorf("owner: reset: %w", err)
	}
	return a.changeConfig(ctx, func(v *layout.View, c *layout.Config) error {
		for id := range v.Members {
			return fmt.Errorf("owner: reset: member %s lives: stop every member of group %s first", id, a.group.Name)
		}
		c.Shards = shards
		c.Lineage++
		return nil
	})
}

// changeConfig replaces the group's config by what change makes of it, unless another changed it meanwhile.
func (a *Admin) changeConfig(ctx context.Context, change func(*layout.View, *layout.Config) error) error {
	v, err := a.look(ctx)
	if err != nil {
		return err
	}
	if v.Config.Rev == 0 {
		return fmt.Errorf("owner: group %s has no config: no member has ever joined it under %s", a.group.Name, a.keys.Prefix())
	}
	if v.Config.Err != nil {
		return fmt.Errorf("owner: config of group %s: %w", a.group.Name, v.Config.Err)
	}
	c := v.Config.Config
	if err := change(v, &c); err != nil {
		return err
	}
	if c == v.Config.Config {
		return nil
	}
	if c.Lineage < 0 || c.Lineage > shard.MaxLineage {
		return fmt.Errorf("owner: lineage %d: want 0 to %d", c.Lineage, shard.MaxLineage)
	}
	key := a.keys.Config()
	_, err = a.store.Commit(ctx, cas.Txn{
		If:   []cas.Cond{cas.AtRev(key, v.Config.Rev)},
		Then: []cas.Op{cas.Put(key, layout.Encode(c))},
	})
	if _, ok := errors.AsType[*cas.ConflictError](err); ok && cas.OutcomeOf(err) == cas.NotApplied {
		return fmt.Errorf("owner: the config of group %s was changed meanwhile: look, and try again: %w", a.group.Name, err)
	}
	if err != nil {
		return fmt.Errorf("owner: config of group %s: %w", a.group.Name, err)
	}
	return nil
}

func (a *Admin) look(ctx context.Context) (*layout.View, error) {
	if err := a.group.Validate(); err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	snap, err := a.store.List(ctx, a.keys.Prefix())
	if err != nil {
		return nil, fmt.Errorf("owner: list group %s: %w", a.group.Name, err)
	}
	return layout.Load(a.keys, a.group.Shards, snap), nil
}
