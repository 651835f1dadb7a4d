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

// BenchmarkReplay is the machine alone, on all that has happened in some simulated schedules: joins, hand-offs and every kind
// of fault. It tells how many steps a second one core makes.
func BenchmarkReplay(b *testing.B) {
	b.Run("small", func(b *testing.B) { replay(b, small, 50) })
	b.Run("large", func(b *testing.B) { replay(b, large, 5) })
}

// recorded is an event that a node has taken. A list is kept as it came, since its view becomes the machine's.
type recorded struct {
	node *simNode
	now  time.Duration
	ev   Event
	list cas.Snapshot
}

func replay(b *testing.B, z size, seeds uint64) {
	var all []recorded
	for seed := uint64(1); seed <= seeds; seed++ {
		w := newWorld(seed, z.shards(seed))
		w.record = func(n *simNode, ev Event) {
			r := recorded{node: n, now: n.local(), ev: ev}
			if _, ok := ev.(Listed); ok {
				r.list = n.list
			}
			all = append(all, r)
		}
		z.run(w)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		events := make([]Event, len(all))
		machines := make(map[*simNode]*Machine)
		for i, r := range all {
			events[i] = r.ev
			if _, ok := r.ev.(Listed); ok {
				events[i] = Listed{View: layout.Load(r.node.keys, r.node.group.Shards, r.list)}
			}
			if machines[r.node] == nil {
				machines[r.node] = New(r.node.c)
			}
		}
		b.StartTimer()
		for i, r := range all {
			machines[r.node].Step(r.now, events[i])
		}
	}
	steps := float64(len(all)) * float64(b.N)
	b.ReportMetric(steps/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/steps, "ns/step")
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
