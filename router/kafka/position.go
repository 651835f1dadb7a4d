package kafka

import (
	"context"
	"fmt"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
)

// Positions keeps the positions of a stream's shards in the coordination store, under the claim: an owner that has been replaced can't move them. It
// is for effects that stand somewhere that keeps no position, and so happen at least once: what was processed after the last Save
// is processed again. Each Save is a commit of the store; its rate is the store's, for all shards together. Where effects
// are in a database, keep the position there, by Position and Advance of its fence.
type Positions struct {
	store  cas.Store
	prefix string
}

// OnStore keeps positions under "prefix/stream/group/shard", with the store that the node has.
func OnStore(s cas.Store, prefix, stream string) *Positions {
	return &Positions{store: s, prefix: prefix + "/" + stream}
}

func (p *Positions) key(t *owner.Tenure) string {
	return fmt.Sprintf("%s/%s/%05d", p.prefix, t.Token().Group, t.Token().Shard)
}

// Load is how far t's shard has consumed: the next offset, or -1.
func (p *Positions) Load(ctx context.Context, t *owner.Tenure) (int64, error) {
	next, rev, err := cas.Get[int64](ctx, p.store, p.key(t))
	switch {
	case err != nil:
		return -1, err
	case rev == 0:
		return -1, nil
	}
	return next, nil
}

// Save stores next, if t's claim stands; a *cas.ConflictError says that it doesn't. It is a Partition's Advance once t is bound.
func (p *Positions) Save(ctx context.Context, t *owner.Tenure, next int64) error {
	_, err := cas.Update(ctx, p.store, p.key(t), func(v *int64) error {
		*v = next
		return nil
	}, cas.UpdateConfig{Guards: []cas.Cond{t.Guard()}})
	return err
}
