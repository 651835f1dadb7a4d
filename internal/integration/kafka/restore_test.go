package kafka

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/router/kafka"
)

// Batches are numbered in a tenure, and readers leave out a number that they have seen. So a tenure restores once: after
// a second time it would count anew, and what it appends would be acknowledged and read by nobody.
func TestChangelog_RestoresOnceInATenure(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		l := b.openChangelog(b.changelog(accounts), kafka.ChangelogConfig{})
		restored(t, l, token(1, 10))
		mustAppend(t, l, token(1, 10), 5, "a")
		if _, err := l.Restore(t.Context(), token(1, 10), new(state).apply); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("a second restore in one tenure: got %v, want a refusal", err)
		}
		mustAppend(t, l, token(1, 10), 6, "b")
		wantRestored(t, l, token(1, 11), 6, "a", "b")
	})
}

// The owner goes on to save checkpoints and to trim while its successor reads ahead. What the successor has not read by
// then is in the newest checkpoint.
func TestChangelog_FollowsPastATrim(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		c := kafka.ChangelogConfig{Checkpoints: kafka.OnCAS(memkv.New(), "/checkpoints"), Trim: true}
		l, tok := b.openChangelog(topic, c), token(3, 10)
		restored(t, l, tok)
		mustAppend(t, l, tok, 1, "a")
		var s state
		f, err := b.openChangelog(topic, c).Follow(t.Context(), 3, s.load, s.apply)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, tok, 2, "b")
		mustAppend(t, l, tok, 3, "c")
		if err := l.Checkpoint(t.Context(), tok, []byte("a b c")); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, tok, 4, "d")
		next, err := f.Restore(t.Context(), token(3, 20))
		if err != nil || next != 4 {
			t.Errorf("restore: got %d, %v, want 4", next, err)
		}
		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, s.values); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
	})
}

// A position past the log's end could not be taken back, and all records up to it would be left out once they come.
func TestConsumer_DoesNotSeekPastTheEnd(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.topic("orders", 1)
		l, book, producer := newLedger(), newBook(), b.producer(single)
		produce(t, producer, book.entries(topic, 5, 10)...)
		n := newFleet(t, single).join(topic, l.open, b.config())
		book.check(t, l)
		if err := n.consumer.Seek(t.Context(), 0, 12); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("Seek to 12 of 10 records: got %v, want a refusal", err)
		}
		if err := n.consumer.Seek(t.Context(), 0, 10); err != nil {
			t.Errorf("Seek to the end: %v", err)
		}
		produce(t, producer, book.entries(topic, 5, 10)...)
		book.check(t, l)
	})
}

// A tenure that outlives its topic must not save a checkpoint over that of the topic's successor, nor trim by its own offsets.
func TestChangelog_NoCheckpointOfADeletedTopic(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		checkpoints := kafka.OnCAS(memkv.New(), "/checkpoints")
		l := b.openChangelog(topic, kafka.ChangelogConfig{Checkpoints: checkpoints, Trim: true})
		restored(t, l, token(0, 10))
		mustAppend(t, l, token(0, 10), 1, "a")
		if _, err := b.admin.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		until(t, "the topic is made anew", func() bool {
			return kafka.CreateChangelog(t.Context(), b.client(), accounts, topic, 1) == nil
		})
		until(t, "a checkpoint is refused", func() bool {
			err := l.Checkpoint(t.Context(), token(0, 10), []byte("a"))
			if err == nil {
				t.Fatal("a checkpoint of the deleted topic was saved")
			}
			_, recreated := errors.AsType[*kafka.RecreatedError](err)
			return recreated
		})
		if _, err := checkpoints.Load(t.Context(), accounts.Name, 0); !errors.Is(err, kafka.ErrNoCheckpoint) {
			t.Errorf("load: got %v, want ErrNoCheckpoint", err)
		}
	})
}
