package router

import (
	"fmt"
	"testing"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"

	"github.com/tenure-go/tenure/shard"
)

// benchKeys are 16 bytes each, and enough of them that no shard's entry is found in the cache only
// because it was asked for just before.
func benchKeys() []string {
	keys := make([]string, 1<<12)
	for i := range keys {
		keys[i] = fmt.Sprintf("account-%08d", i*7919)
	}
	return keys
}

// BenchmarkOwner is what a request pays to learn its owner.
func BenchmarkOwner(b *testing.B) {
	for _, shards := range []int{64, 1000, 65536} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			g := newGroup(b, shards)
			const members = 16
			for m := range members {
				id := fmt.Sprintf("n%d", m)
				g.join(shard.Member{ID: id, Address: id + ":80"})
				var mine []int
				for s := m; s < shards; s += members {
					mine = append(mine, s)
				}
				g.claim(id, mine...)
			}
			table, _ := g.open()
			keys := benchKeys()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if m, _ := table.Owner(keys[i&(len(keys)-1)]); m == nil {
					b.Fatal("no owner")
				}
				i++
			}
		})
	}
}

// BenchmarkXXHash is the floor: the hash of such a key alone.
func BenchmarkXXHash(b *testing.B) {
	keys := benchKeys()
	i := 0
	for b.Loop() {
		xxhash.Sum64String(keys[i&(len(keys)-1)])
		i++
	}
}

type ringMember string

func (m ringMember) String() string { return string(m) }

type ringHash struct{}

func (ringHash) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

// BenchmarkConsistentLocateKey is what programs use today.
func BenchmarkConsistentLocateKey(b *testing.B) {
	for _, partitions := range []int{64, 65536} {
		b.Run(fmt.Sprintf("shards=%d", partitions), func(b *testing.B) {
			var members []consistent.Member
			for m := range 16 {
				members = append(members, ringMember(fmt.Sprintf("n%d", m)))
			}
			ring := consistent.New(members, consistent.Config{
				PartitionCount: partitions, ReplicationFactor: 20, Load: 1.25, Hasher: ringHash{},
			})
			var keys [][]byte
			for _, k := range benchKeys() {
				keys = append(keys, []byte(k))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if ring.LocateKey(keys[i&(len(keys)-1)]) == nil {
					b.Fatal("no owner")
				}
				i++
			}
		})
	}
}
