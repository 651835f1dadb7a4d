package kafka

import (
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Partitioner sends each record to the partition that is its key's shard in g, for kgo.RecordPartitioner of any
// producer's client: with Murmur2 to the partition that Kafka's Java producer chooses, with XXH64 to that of no other
// client. It holds a record back while its partition can't be written to, rather than send it elsewhere.
//
// It fails a record that has no key (nil; an empty one is a key), and every record of a topic that hasn't exactly
// g.Shards partitions. kgo words both as "invalid record partitioning choice of -1" and "of -2": see NoKey and
// WrongCount. An invalid g fails every record.
func Partitioner(g shard.Group) kgo.Partitioner {
	valid := g.Validate() == nil
	return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, n int) int {
			switch {
			case !valid || n != g.Shards:
				return WrongCount
			case r.Key == nil:
				return NoKey
			}
			return g.Of(string(r.Key))
		}
	})
}

// What Partitioner chooses for a record that it fails: kgo names the number in the record's error.
const (
	NoKey      = -1 // the record has no key, so it is nobody's: give it one
	WrongCount = -2 // the topic has not as many partitions as the group has shards
)

// Next is the offset to go on from after recs, which are one partition's, in order. Of none it is 0.
func Next(recs []*kgo.Record) int64 {
	if len(recs) == 0 {
		return 0
	}
	return recs[len(recs)-1].Offset + 1
}
