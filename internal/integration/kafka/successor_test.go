package kafka

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router/kafka"
)

// A changelog's topic was deleted and made anew, and its checkpoints were not, or come back from a copy: far ahead by their offsets, and of another log. None
// is taken for the new log's, and none pushes the new log's out, which with Trim is all that is left of it.
func TestChangelog_OldCheckpointsOfATopicMadeAnew(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic, dir, kept := b.changelog(accounts), t.TempDir(), t.TempDir()
		c := kafka.ChangelogConfig{Checkpoints: kafka.Directory(dir), Trim: true}
		checkpoint := func(l *kafka.Changelog, revision int64, from int, vs ...string) {
			t.Helper()
			tok := token(0, revision)
			restored(t, l, tok)
			for i := from; i < len(vs); i++ {
				mustAppend(t, l, tok, int64(i+1), vs[i])
			}
			if err := l.Checkpoint(t.Context(), tok, []byte(strings.Join(vs, " "))); err != nil {
				t.Fatal(err)
			}
		}
		old := b.openChangelog(topic, c)
		checkpoint(old, 10, 0, strings.Fields(strings.Repeat("old ", 30))...)
		checkpoint(old, 11, 30, strings.Fields(strings.Repeat("old ", 40))...)
		if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.admin.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		until(t, "the topic is gone", func() bool {
			d, err := b.admin.ListTopics(t.Context(), topic)
			return err == nil && errors.Is(d[topic].Err, kerr.UnknownTopicOrPartition)
		})
		if err := kafka.CreateChangelog(t.Context(), b.client(), accounts, topic, -1); err != nil {
			t.Fatal(err)
		}
		var l *kafka.Changelog
		until(t, "the topic is made anew", func() bool {
			var err error
			l, err = kafka.OpenChangelog(t.Context(), accounts, topic, kafka.ChangelogConfig{Client: b.opts, Checkpoints: c.Checkpoints, Trim: true})
			return err == nil
		})
		t.Cleanup(func() { l.Close() })

		_, err := l.RestoreFrom(t.Context(), token(0, 20), new(state).load, new(state).apply)
		if err == nil || !strings.Contains(err.Error(), "delete the one or the other") || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("restore with a checkpoint of the old topic: got %v, want a refusal", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		checkpoint(l, 21, 0, "a", "b")
		if err := os.CopyFS(dir, os.DirFS(kept)); err != nil { // somebody puts them back
			t.Fatal(err)
		}
		wantRestored(t, l, token(0, 22), 2, "a", "b")
		checkpoint(l, 23, 2, "a", "b", "c")
		wantRestored(t, b.openChangelog(topic, c), token(0, 24), 3, "a", "b", "c")
	})
}
