package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// BenchmarkStep is one event in a group at rest: the node serves its share of the shards, and a claim of others changes
// hands, or time passes. It has to cost the same whatever the size of the group.
func BenchmarkStep(b *testing.B) {
	for _, shards := range []int{64, 4096, 65536} {
		m, now, rev := atRest(shards)
		other := layout.Encode(layout.Claim{Format: 1, Member: "b"})
		key := m.keys.Claim(1)
		b.Run(fmt.Sprintf("watched/shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rev++
				now += time.Nanosecond
				m.Step(now, Watched{Change: cas.Change{Rev: rev, Events: []cas.Event{
					{Entry: cas.Entry{Key: key, Value: other, Rev: rev, Created: 10, Lease: 2}},
				}}})
			}
		})
		b.Run(fmt.Sprintf("tick/shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				now += time.Nanosecond
				m.Step(now, Tick{})
			}
		})
	}
}

// atRest is a node that serves every other shard; b holds the rest, and plans.
func atRest(shards int) (*Machine, time.Duration, int64) {
	c := Config{
		Group: shard.Group{Name: "g", Shards: shards}.WithDefaults(), GroupID: "gid",
		Member: layout.Member{Member: shard.Member{ID: "a", Weight: 1}},
		TTL:    10 * time.Second, StartTimeout: time.Minute, PrepareTimeout: time.Second, DrainTimeout: time.Second,
		MinMembers: 1, Settle: time.Second,
	}
	m := New(c)
	k := layout.For(c.Group)
	now, rev := time.Hour, int64(10)
	entries := []cas.Entry{{
		Key: k.Config(), Rev: 2, Created: 2,
		Value: layout.Encode(layout.Config{Format: 1, ID: "gid", Shards: shards, Hash: "xxh64"}),
	}}
	for i, id := range []string{"b", "a"} {
		entries = append(entries, cas.Entry{
			Key: k.Member(id), Rev: int64(3 + i), Created: int64(3 + i), Lease: cas.LeaseID(2 - i),
			Value: layout.Encode(layout.Member{Format: 1, Member: shard.Member{ID: id, Weight: 1}}),
		})
	}
	for s := range shards {
		entries = append(entries, cas.Entry{Key: k.Claim(s), Rev: rev, Created: rev, Lease: cas.LeaseID(1 + s%2), Value: []byte("{}")})
	}
	m.member.lease, m.member.ttl, m.member.renewAt = 1, c.TTL, now+time.Hour
	m.acknowledge(now, cas.Lease{ID: 1, TTL: time.Hour, Rev: rev})
	m.Step(now, Listed{View: layout.Load(k, shards, cas.Snapshot{Rev: rev, Entries: entries})})
	m.Step(now, Tick{})
	for s := 0; s < shards; s += 2 {
		m.Step(now, Ready{Shard: s, Epoch: m.view.Epoch(rev)})
	}
	if got := m.running; got != (shards+1)/2 {
		panic(fmt.Sprintf("%d shards are served", got))
	}
	now += time.Minute // timers of the starts are over
	m.Step(now, Tick{})
	return m, now, rev
}
