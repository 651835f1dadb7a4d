package shard_test

import (
	"encoding/json"
	"fmt"

	"github.com/tenure-go/tenure/shard"
)

func ExampleGroup_Of() {
	accounts := shard.Group{Name: "accounts", Shards: 64}
	fmt.Println(accounts.Of("alice"), accounts.Of("foobar"))

	// The partition that a Java producer would choose, in a topic of 64 partitions.
	topic := shard.Group{Name: "payments", Shards: 64, Hash: shard.Murmur2}
	fmt.Println(topic.Of("alice"), topic.Of("foobar"))
	// Output:
	// 9 57
	// 21 62
}

func ExampleGroup_Validate() {
	g := shard.Group{Name: "Accounts", Shards: 100_000}
	fmt.Println(g.Validate())
	// Output:
	// shard: Group.Name "Accounts": has 'A': want only a-z, 0-9 and '-'
	// shard: Group.Shards 100000: want 1 to 65536
}

func ExampleEpoch() {
	before, _ := shard.NewEpoch(0, 981_002) // revision 981,002 of the store
	after, _ := shard.NewEpoch(1, 4_812)    // restored from an older backup, and the lineage raised
	fmt.Println(before, after, after > before)

	b, _ := json.Marshal(after)
	fmt.Println(string(b))
	// Output:
	// 0:981002 1:4812 true
	// "281474976715468"
}

func ExamplePlanner() {
	in := shard.PlanInput{
		Members: []shard.Candidate{
			{ID: "a", Weight: 1},
			{ID: "b", Weight: 1},
			{ID: "c", Weight: 1, Draining: true},
		},
		Owners: []string{"a", "a", "a", "a", "b", "c", "", "b"},
	}
	var p shard.Planner
	plan := p.Plan(in)
	for _, c := range plan.Grants {
		fmt.Printf("grant %d to %s: %s\n", c.Shard, c.To, c.Reason)
	}
	for _, c := range plan.Moves {
		fmt.Printf("move %d from %s to %s: %s\n", c.Shard, c.From, c.To, c.Reason)
	}
	// Output:
	// grant 6 to b: orphan
	// move 5 from c to b: drain
}
