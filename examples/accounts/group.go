package main

import "github.com/tenure-go/tenure/shard"

// Group is declared once. In a larger system it lives in a package of its own, which gateways and producers import
// too. The number of shards is for life: 10 to 30 times the most processes that will ever run.
var Group = shard.Group{Name: "accounts", Shards: 64}
