package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// owners is who owns which shard, as the store has it.
type owners struct {
	table *router.Table
	keys  []string // one of each shard
}

func newOwners(t *router.Table, g shard.Group) *owners {
	o := &owners{table: t, keys: make([]string, g.Shards)}
	for i, found := 0, 0; found < g.Shards; i++ {
		key := fmt.Sprintf("k%d", i)
		if s := g.Of(key); o.keys[s] == "" {
			o.keys[s] = key
			found++
		}
	}
	return o
}

// of counts the shards of a member; of "", those that nobody owns.
func (o *owners) of(id string) (n int) {
	for _, key := range o.keys {
		m, _ := o.table.Owner(key)
		if m == nil && id == "" || m != nil && m.ID == id {
			n++
		}
	}
	return n
}

// even waits until every node has its share.
func (o *owners) even(ctx context.Context, patience time.Duration) error {
	return until(ctx, patience, "every node to own its share of the shards", func() bool {
		for i := range nodes {
			if o.of(nodeID(i)) < len(o.keys)/nodes {
				return false
			}
		}
		return o.of("") == 0
	})
}
