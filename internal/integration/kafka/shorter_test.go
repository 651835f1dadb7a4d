package kafka

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/router/kafka"
)

func checkpointStores(t *testing.T) map[string]kafka.Checkpoints {
	return map[string]kafka.Checkpoints{"cas": kafka.OnCAS(memkv.New(), "/checkpoints"), "directory": kafka.Directory(t.TempDir())}
}

// shortened leaves a log as one that has lost its last records since a checkpoint of them was saved, and returns its topic.
func (b *brokers) shortened(cp kafka.Checkpoints, lost int64) string {
	b.t.Helper()
	topic := b.changelog(accounts)
	l := b.openChangelog(topic, kafka.ChangelogConfig{Checkpoints: cp})
	t := b.t.(*testing.T)
	restored(t, l, token(0, 10))
	mustAppend(t, l, token(0, 10), 1, "a")
	err := l.Checkpoint(t.Context(), token(0, 10), []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := cp.Load(t.Context(), accounts.Name, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Offset, c.Next, c.State = c.Offset+lost, 11, []byte("a b")
	if err := cp.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return topic
}

func wantShort(t *testing.T, l *kafka.Changelog, revision int64, want string) {
	t.Helper()
	var s state
	_, err := l.RestoreFrom(t.Context(), token(0, revision), s.load, s.apply)
	if err == nil || cas.OutcomeOf(err) != cas.NotApplied || !strings.Contains(err.Error(), want) {
		t.Errorf("restore under revision %d: got %v, want a refusal that says %q", revision, err, want)
	}
}

// A log that ends below the newest checkpoint has lost what was acknowledged. An owner that went on would append where no later one reads. It is
// refused each time: tries leave nothing in the log, which would carry it past the checkpoint.
func TestChangelog_RefusesALogShorterThanTheCheckpoint(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		for name, cp := range checkpointStores(t) {
			t.Run(name, func(t *testing.T) {
				b := &brokers{t: t, opts: b.opts, admin: b.admin, fake: b.fake}
				topic := b.shortened(cp, 5)
				end := b.ends(topic)[0]
				l := b.openChangelog(topic, kafka.ChangelogConfig{Checkpoints: cp})
				for revision := range int64(8) {
					wantShort(t, l, 20+revision, "delete the checkpoint")
				}
				if got := b.ends(topic)[0]; got != end {
					t.Errorf("the log ends at %d after the tries, want %d as before", got, end)
				}
			})
		}
	})
}

// It may have lost its end between the question and the marker; and a log that has grown past the checkpoint under an owner without checkpoints shows
// by that owner's marker, which this reader never saw.
func TestChangelog_RefusesALogThatWasShorter(t *testing.T) {
	t.Run("just now", func(t *testing.T) {
		b := fake(t)
		cp := kafka.OnCAS(memkv.New(), "/checkpoints")
		topic := b.shortened(cp, 5)
		l := b.openChangelog(topic, kafka.ChangelogConfig{Checkpoints: cp})
		b.fake.ControlKey(int16(kmsg.ListOffsets), func(k kmsg.Request) (kmsg.Response, error, bool) {
			b.fake.KeepControl()
			return listed(k.(*kmsg.ListOffsetsRequest), 100, 0), nil, true
		})
		wantShort(t, l, 20, "delete the checkpoint")
	})
	t.Run("it has grown", func(t *testing.T) {
		each(t, func(t *testing.T, b *brokers) {
			cp := kafka.OnCAS(memkv.New(), "/checkpoints")
			topic := b.shortened(cp, 5)
			plain := b.openChangelog(topic, kafka.ChangelogConfig{})
			wantRestored(t, plain, token(0, 20), 1, "a")
			for next := range int64(10) {
				mustAppend(t, plain, token(0, 20), 12+next, "x")
			}
			wantShort(t, b.openChangelog(topic, kafka.ChangelogConfig{Checkpoints: cp}), 30, "lost records")
		})
	})
}

// listed answers a request of one partition.
func listed(req *kmsg.ListOffsetsRequest, offset int64, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition, p.Offset, p.ErrorCode = req.Topics[0].Partitions[0].Partition, offset, code
	resp.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: req.Topics[0].Topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}}}
	return resp
}
