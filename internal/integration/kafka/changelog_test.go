package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

var accounts = shard.Group{Name: "accounts", Shards: 4}

// token is what a tenure of that epoch would have. Lineage 40 makes it one that no float holds.
func token(s int, revision int64) shard.Token {
	epoch, err := shard.NewEpoch(40, revision)
	if err != nil {
		panic(err)
	}
	return shard.Token{Group: accounts.Name, GroupID: "GROUPID", Shard: s, Epoch: epoch}
}

func (b *brokers) openChangelog(topic string, c kafka.ChangelogConfig) *kafka.Changelog {
	b.t.Helper()
	c.Client = append(c.Client, b.opts...)
	l, err := kafka.OpenChangelog(b.t.Context(), accounts, topic, c)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { l.Close() })
	return l
}

// state collects the values that are applied.
type state struct{ values []string }

func (s *state) apply(r *kgo.Record) error {
	s.values = append(s.values, string(r.Value))
	return nil
}

func (s *state) load(data []byte) error {
	s.values = strings.Fields(string(data))
	return nil
}

func (s *state) save() []byte { return []byte(strings.Join(s.values, " ")) }

func values(vs ...string) []*kgo.Record {
	var recs []*kgo.Record
	for _, v := range vs {
		recs = append(recs, &kgo.Record{Key: []byte("k"), Value: []byte(v)})
	}
	return recs
}

// restored is what a new owner finds.
func restored(t *testing.T, l *kafka.Changelog, tok shard.Token) ([]string, int64) {
	t.Helper()
	var s state
	next, err := l.RestoreFrom(t.Context(), tok, s.load, s.apply)
	if err != nil {
		t.Fatalf("restore under %s: %v", tok, err)
	}
	return s.values, next
}

func wantRestored(t *testing.T, l *kafka.Changelog, tok shard.Token, next int64, vs ...string) {
	t.Helper()
	got, at := restored(t, l, tok)
	if diff := cmp.Diff(vs, got); diff != "" || at != next {
		t.Errorf("restored under %s: position %d, want %d; values (-want +got):\n%s", tok, at, next, diff)
	}
}

func mustAppend(t *testing.T, l *kafka.Changelog, tok shard.Token, next int64, vs ...string) {
	t.Helper()
	if err := l.Append(t.Context(), tok, next, values(vs...)...); err != nil {
		t.Fatalf("append under %s: %v", tok, err)
	}
}

func wantFenced(t *testing.T, what string, err error, mine, current shard.Token) {
	t.Helper()
	e, ok := errors.AsType[*fence.FencedError](err)
	if !ok || e.Mine != mine.Epoch || e.Current != current.Epoch || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("%s: got %v, want FencedError{%s, %s}, not applied", what, err, mine.Epoch, current.Epoch)
	}
}

func TestChangelog_RestoresWhatWasAppended(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		l := b.openChangelog(topic, kafka.ChangelogConfig{})
		if _, next := restored(t, l, token(1, 10)); next != -1 {
			t.Errorf("position of an empty log: got %d, want -1", next)
		}
		mustAppend(t, l, token(1, 10), 5, "a", "b")
		mustAppend(t, l, token(1, 10), 9)       // a position alone
		mustAppend(t, l, token(1, 10), -1, "c") // no position
		wantRestored(t, l, token(1, 11), 9, "a", "b", "c")
		wantRestored(t, l, token(0, 11), -1)
		mustAppend(t, l, token(1, 11), 10, "d")
		wantRestored(t, b.openChangelog(topic, kafka.ChangelogConfig{}), token(1, 12), 10, "a", "b", "c", "d")
	})
}

// A zombie wakes and produces last, with a client of its own that has initialized its producer last as well: a rival that fences by
// producer ids would have fenced the rightful owner. Here what it wrote counts for nobody, and it is told so.
func TestCase_PostHog76169_ZombieThatProducesLast(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		zombie, heir := b.openChangelog(topic, kafka.ChangelogConfig{}), b.openChangelog(topic, kafka.ChangelogConfig{})
		old, tok := token(2, 10), token(2, 20)
		restored(t, zombie, old)
		mustAppend(t, zombie, old, 1, "a")
		wantRestored(t, heir, tok, 1, "a")
		mustAppend(t, heir, tok, 2, "b")

		wantFenced(t, "append of the zombie", zombie.Append(t.Context(), old, 2, values("evil")...), old, tok)
		wantFenced(t, "its next", zombie.Append(t.Context(), old, 3, values("evil")...), old, tok)
		late := b.openChangelog(topic, kafka.ChangelogConfig{})
		_, err := late.Restore(t.Context(), old, new(state).apply)
		wantFenced(t, "restore of a late starter", err, old, tok)

		mustAppend(t, heir, tok, 3, "c") // it goes on, with the zombie's records between
		wantRestored(t, b.openChangelog(topic, kafka.ChangelogConfig{}), token(2, 30), 3, "a", "b", "c")
	})
}

// A batch that was cut off counts for nobody, whether its owner died or a new one's marker came into it.
func TestChangelog_DropsABatchThatWasCut(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		l := b.openChangelog(topic, kafka.ChangelogConfig{})
		tok := token(0, 10)
		restored(t, l, tok)
		mustAppend(t, l, tok, 4, "a", "b", "c")
		whole := b.read(topic, 0)
		raw := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		copied := func(r *kgo.Record, epoch, batch string) *kgo.Record {
			c := &kgo.Record{Topic: topic, Partition: 0, Key: r.Key, Value: []byte("torn")}
			for _, h := range r.Headers {
				v := string(h.Value)
				switch h.Key {
				case kafka.HeaderEpoch:
					if epoch != "" {
						v = epoch
					}
				case kafka.HeaderFrame:
					f := strings.Fields(v)
					f[2] = batch
					v = strings.Join(f, " ")
				}
				c.Headers = append(c.Headers, kgo.RecordHeader{Key: h.Key, Value: []byte(v)})
			}
			return c
		}
		produce(t, raw, copied(whole[1], "", "2"), copied(whole[2], "", "2")) // two of three
		wantRestored(t, l, token(0, 20), 4, "a", "b", "c")

		// The third comes when the marker is there: it completes nothing.
		produce(t, raw, copied(whole[3], tok.Epoch.Decimal(), "2"))
		mustAppend(t, l, token(0, 20), 5, "d")
		wantRestored(t, l, token(0, 30), 5, "a", "b", "c", "d")
	})
}

// The positions of an owner's batches, and what a stranger's are, are told by the records' headers alone.
func TestChangelog_RefusesAnotherGroupsLog(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		l := b.openChangelog(topic, kafka.ChangelogConfig{})
		restored(t, l, token(0, 10))
		other := token(0, 20)
		other.GroupID = "OTHER"
		_, err := l.Restore(t.Context(), other, new(state).apply)
		if e, ok := errors.AsType[*kafka.LogGroupError](err); !ok || e.Mine != "OTHER" || e.Theirs != "GROUPID" {
			t.Errorf("restore by another group: got %v, want LogGroupError", err)
		}
		// A plain record in it can't be judged either.
		produce(t, b.client(kgo.RecordPartitioner(kgo.ManualPartitioner())), &kgo.Record{Topic: topic, Partition: 1, Key: []byte("k")})
		if _, err := l.Restore(t.Context(), token(1, 10), new(state).apply); err == nil || !strings.Contains(err.Error(), "no changelog has written") {
			t.Errorf("restore from a log with a foreign record: got %v, want a refusal", err)
		}
	})
}

func TestChangelog_NeedsARestore(t *testing.T) {
	b := fake(t)
	l := b.openChangelog(b.changelog(accounts), kafka.ChangelogConfig{})
	if err := l.Append(t.Context(), token(0, 10), 1, values("a")...); !errors.Is(err, kafka.ErrRestore) {
		t.Errorf("append before a restore: got %v, want ErrRestore", err)
	}
	restored(t, l, token(0, 10))
	if err := l.Append(t.Context(), token(0, 11), 1, values("a")...); !errors.Is(err, kafka.ErrRestore) {
		t.Errorf("append under an epoch that hasn't restored: got %v, want ErrRestore", err)
	}
	mustAppend(t, l, token(0, 10), 5, "a")
	if err := l.Append(t.Context(), token(0, 10), 4, values("a")...); err == nil {
		t.Error("append with a position that goes back: got nil, want an error")
	}
}

// An append that failed may be in the log in part, or come later. So the tenure appends no more, and the next one finds out.
func TestChangelog_AFailedAppendEndsTheTenuresPart(t *testing.T) {
	b := fake(t)
	topic := b.changelog(accounts)
	l := b.openChangelog(topic, kafka.ChangelogConfig{})
	restored(t, l, token(0, 10))
	mustAppend(t, l, token(0, 10), 1, "a")
	b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.InvalidRecord})
	err := l.Append(t.Context(), token(0, 10), 2, values("b")...)
	if !errors.Is(err, kerr.InvalidRecord) || cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("append that the broker refuses: got %v, want its error, uncertain", err)
	}
	if err := l.Append(t.Context(), token(0, 10), 3, values("c")...); !errors.Is(err, kafka.ErrRestore) {
		t.Errorf("append after one that failed: got %v, want ErrRestore", err)
	}
	if err := l.Checkpoint(t.Context(), token(0, 10), nil); err == nil {
		t.Error("checkpoint after an append that failed: got nil, want an error")
	}
	wantRestored(t, l, token(0, 20), 1, "a")
	mustAppend(t, l, token(0, 20), 2, "b")
}

// The leader of a partition moves while its log is read and written.
func TestChangelog_FollowsTheLeader(t *testing.T) {
	b := fake(t, kfake.NumBrokers(3))
	topic := b.changelog(accounts)
	l := b.openChangelog(topic, kafka.ChangelogConfig{})
	restored(t, l, token(0, 10))
	var want []string
	for i := range 20 {
		if err := b.fake.MoveTopicPartition(topic, 0, int32(i%3)); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprint(i))
		mustAppend(t, l, token(0, int64(10+i)), int64(i), fmt.Sprint(i))
		if err := b.fake.MoveTopicPartition(topic, 0, int32((i+1)%3)); err != nil {
			t.Fatal(err)
		}
		wantRestored(t, l, token(0, int64(11+i)), int64(i), want...)
	}
}

// A topic that forgets is refused: compacted, or with a limit in time or size.
func TestChangelog_RefusesTopicsThatForget(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		for _, conf := range [][]string{
			{"cleanup.policy", "compact", "retention.ms", "-1"},
			{"cleanup.policy", "compact,delete", "retention.ms", "-1"},
			{"retention.ms", "3600000"},
			{"retention.ms", "-1", "retention.bytes", "1000000"},
			nil, // a week by default
		} {
			topic := b.topic("forgets", accounts.Shards, conf...)
			_, err := kafka.OpenChangelog(t.Context(), accounts, topic, kafka.ChangelogConfig{Client: b.opts})
			if _, ok := errors.AsType[*kafka.ForgetfulError](err); !ok {
				t.Errorf("OpenChangelog of a topic with %v: got %v, want ForgetfulError", conf, err)
			}
		}
	})
}

// Checkpoints bound the replay, and with Trim the log. A zombie's late record does no harm where the log has been cut.
func TestChangelog_Checkpoints(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		for kind, checkpoints := range map[string]kafka.Checkpoints{
			"store": kafka.OnCAS(memkv.New(), "/checkpoints"), "directory": kafka.Directory(t.TempDir()),
		} {
			t.Run(kind, func(t *testing.T) {
				topic := b.changelog(accounts)
				c := kafka.ChangelogConfig{Checkpoints: checkpoints, Trim: true}
				l, zombie := b.openChangelog(topic, c), b.openChangelog(topic, c)
				old, tok := token(0, 10), token(0, 20)
				restored(t, zombie, old)
				mustAppend(t, zombie, old, 3, "a", "b")
				var s state
				next, err := l.RestoreFrom(t.Context(), tok, s.load, s.apply)
				if err != nil || next != 3 {
					t.Fatalf("restore: got %d, %v", next, err)
				}
				mustAppend(t, l, tok, 5, "c")
				s.values = append(s.values, "c")
				if err := l.Checkpoint(t.Context(), tok, s.save()); err != nil {
					t.Fatal(err)
				}
				first, err := b.admin.ListStartOffsets(t.Context(), topic)
				if err != nil || first[topic][0].Offset != b.ends(topic)[0]-1 {
					t.Errorf("the log begins at %d, ends at %d: want all but the last record deleted (%v)", first[topic][0].Offset, b.ends(topic)[0], err)
				}
				wantFenced(t, "the zombie's append", zombie.Append(t.Context(), old, 4, values("evil")...), old, tok)
				mustAppend(t, l, tok, 6, "d")
				wantRestored(t, b.openChangelog(topic, c), token(0, 30), 6, "a", "b", "c", "d")

				// Who knows of no checkpoint is told that something is missing.
				_, err = b.openChangelog(topic, kafka.ChangelogConfig{}).Restore(t.Context(), token(0, 40), new(state).apply)
				if e, ok := errors.AsType[*kafka.OffsetError](err); !ok || e.Position != 0 {
					t.Errorf("restore without checkpoints: got %v, want OffsetError", err)
				}
			})
		}
	})
}

// A follower has read ahead, so that a restore has only the rest to read.
func TestChangelog_Follows(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		l := b.openChangelog(topic, kafka.ChangelogConfig{})
		tok := token(3, 10)
		restored(t, l, tok)
		mustAppend(t, l, tok, 1, "a")
		var s state
		f, err := b.openChangelog(topic, kafka.ChangelogConfig{}).Follow(t.Context(), 3, nil, s.apply)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a"}, s.values); diff != "" {
			t.Errorf("followed (-want +got):\n%s", diff)
		}
		mustAppend(t, l, tok, 2, "b")
		next, err := f.Restore(t.Context(), token(3, 20))
		if err != nil || next != 2 {
			t.Errorf("restore: got %d, %v, want 2", next, err)
		}
		if diff := cmp.Diff([]string{"a", "b"}, s.values); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
	})
}

// Large batches, of more records than a client buffers at once by default and of more bytes than a produce request may have, are whole too.
func TestChangelog_LargeBatch(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		l := b.openChangelog(topic, kafka.ChangelogConfig{})
		restored(t, l, token(0, 10))
		var vs []string
		for i := range 12_000 {
			vs = append(vs, fmt.Sprintf("%d-%s", i, strings.Repeat("x", 200)))
		}
		mustAppend(t, l, token(0, 10), 1, vs...)
		wantRestored(t, l, token(0, 20), 1, vs...)
	})
}
