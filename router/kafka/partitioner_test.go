package kafka

import (
	"fmt"
	"testing"

	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestPartitioner(t *testing.T) {
	for _, hash := range []shard.Hash{"", shard.XXH64, shard.Murmur2} {
		g := shard.Group{Name: "g", Shards: 12, Hash: hash}
		p := Partitioner(g).ForTopic("any")
		for i := range 100 {
			key := fmt.Sprintf("key-%d", i)
			r := &kgo.Record{Key: []byte(key)}
			if !p.RequiresConsistency(r) {
				t.Fatal("RequiresConsistency: got false: a record would go elsewhere while its partition is away")
			}
			if got, want := p.Partition(r, 12), g.Of(key); got != want {
				t.Errorf("%q with %q: got partition %d, want its shard, %d", key, hash, got, want)
			}
		}
		if got := p.Partition(&kgo.Record{Key: []byte{}}, 12); got != g.Of("") {
			t.Errorf("the empty key: got %d, want %d", got, g.Of(""))
		}
		for what, tc := range map[string]struct {
			r    *kgo.Record
			n    int
			want int
		}{
			"no key":            {&kgo.Record{}, 12, NoKey},
			"fewer partitions":  {&kgo.Record{Key: []byte("k")}, 11, WrongCount},
			"more partitions":   {&kgo.Record{Key: []byte("k")}, 13, WrongCount},
			"no key, and wrong": {&kgo.Record{}, 13, WrongCount},
		} {
			if got := p.Partition(tc.r, tc.n); got != tc.want {
				t.Errorf("%s: got %d, want %d", what, got, tc.want)
			}
		}
	}
	if got := Partitioner(shard.Group{}).ForTopic("any").Partition(&kgo.Record{Key: []byte("k")}, 0); got != WrongCount {
		t.Errorf("an invalid group: got %d, want %d", got, WrongCount)
	}
}

func TestNext(t *testing.T) {
	if got := Next(nil); got != 0 {
		t.Errorf("of none: got %d, want 0", got)
	}
	if got := Next([]*kgo.Record{{Offset: 3}, {Offset: 7}}); got != 8 {
		t.Errorf("got %d, want 8: the offset after the last", got)
	}
}
