package kafka

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// What Kafka's own Java producer writes lies where a Murmur2 group looks for it: in the partition of the key's shard, which is where Partitioner
// sends it too.
func TestPartitioner_AgreesWithJava(t *testing.T) {
	b := real(t)
	jars := os.Getenv("TENURE_TEST_KAFKA_JARS")
	if jars == "" {
		t.Skip("TENURE_TEST_KAFKA_JARS is not set: .ci/kafka sets it")
	}
	java := shard.Group{Name: "java", Shards: 13, Hash: shard.Murmur2}
	topic := b.topic("java", java.Shards)
	const n = 1000
	cmd := exec.CommandContext(t.Context(), "java", "-cp", filepath.Join(jars, "*"),
		filepath.Join("testdata", "Produce.java"), os.Getenv("TENURE_TEST_KAFKA"), topic, "1000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("java: %v\n%s", err, out)
	}
	partitioner := kafka.Partitioner(java).ForTopic(topic)
	seen, used := 0, make(map[int32]bool)
	for p := range java.Shards {
		for _, r := range b.read(topic, p) {
			seen++
			used[r.Partition] = true
			if shard := java.Of(string(r.Key)); shard != p {
				t.Errorf("key %q is in partition %d, and of shard %d", r.Key, p, shard)
			}
			if got := partitioner.Partition(r, java.Shards); got != p {
				t.Errorf("key %q is in partition %d, Partitioner says %d", r.Key, p, got)
			}
		}
	}
	if seen != n+1 || len(used) != java.Shards {
		t.Errorf("got %d records in %d partitions, want %d in %d", seen, len(used), n+1, java.Shards)
	}
}

// A record without a key, and one to a topic of another size, fail at the producer.
func TestPartitioner_FailsAtTheProducer(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic, other := b.topic("orders", orders.Shards), b.topic("other", orders.Shards+1)
		producer := b.producer(orders)
		for what, tc := range map[string]struct {
			r    *kgo.Record
			want string
		}{
			"no key":                {&kgo.Record{Topic: topic, Value: []byte("v")}, "choice of -1"},
			"a topic that is wider": {&kgo.Record{Topic: other, Key: []byte("k")}, "choice of -2"},
		} {
			if err := producer.ProduceSync(t.Context(), tc.r).FirstErr(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", what, err, tc.want)
			}
		}
		produce(t, producer, &kgo.Record{Topic: topic, Key: []byte("k")})
		if got := b.ends(topic)[orders.Of("k")]; got != 1 {
			t.Errorf("records in the key's partition: got %d, want 1", got)
		}
	})
}
