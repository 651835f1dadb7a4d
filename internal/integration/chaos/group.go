package main

import (
	"fmt"

	"github.com/tenure-go/tenure/shard"
)

// group is the one that all processes share.
func group() shard.Group { return shard.Group{Name: "chaos", Shards: 18} }

// nodes is how many there are.
const nodes = 5

func nodeID(i int) string { return fmt.Sprintf("node-%d", i+1) }

// inStore reports that a shard keeps its registers in etcd. The others keep them in Postgres.
func inStore(s int) bool { return s%3 == 2 }

// beatKey is the register that the owner of a shard writes by itself.
func beatKey(s int) string { return fmt.Sprintf("beat-%d", s) }

// registerName makes a name up for a slot's register, which falls to one shard whatever the generation.
func registerName(g shard.Group, slot, generation int) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("r%d.%d.%d", slot, generation, i)
		if g.Of(name) == slot%g.Shards {
			return name
		}
	}
}
