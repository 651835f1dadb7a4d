package kafka

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/router/kafka"
)

// What the three kinds of reader see of a changelog to which a zombie appends last, and in which a batch was cut off. The rule of Filter is theirs who want
// exactly what rightful owners appended; committed and uncommitted are all the same without transactions.
func TestReaders_OfAChangelog(t *testing.T) {
	each(t, func(t *testing.T, b *brokers) {
		topic := b.changelog(accounts)
		zombie, heir := b.openChangelog(topic, kafka.ChangelogConfig{}), b.openChangelog(topic, kafka.ChangelogConfig{})
		old, tok := token(0, 10), token(0, 20)
		restored(t, zombie, old)
		mustAppend(t, zombie, old, 1, "a", "b")
		cut := b.read(topic, 0)[1] // a copy of the first of two, as of a batch that would have been the next
		for i, h := range cut.Headers {
			if h.Key == kafka.HeaderFrame {
				f := strings.Fields(string(h.Value))
				f[2] = "2"
				cut.Headers[i].Value = []byte(strings.Join(f, " "))
			}
		}
		produce(t, b.client(kgo.RecordPartitioner(kgo.ManualPartitioner())), &kgo.Record{Topic: topic, Headers: cut.Headers, Key: []byte("k"), Value: []byte("torn")})
		restored(t, heir, tok)
		mustAppend(t, heir, tok, 2, "c")
		_ = zombie.Append(t.Context(), old, 2, values("evil")...)

		var filtered []string
		var f kafka.Filter
		plain := b.read(topic, 0)
		for _, r := range plain {
			w, ok, err := f.Push(r)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				filtered = append(filtered, valuesOf(w.Records)...)
			}
		}
		committed, err := readCommitted(t.Context(), b.opts, topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		all := []string{"a", "b", "torn", "c", "evil"}
		for reader, got := range map[string][2][]string{
			"plain":     {all, valuesOf(plain)},
			"committed": {all, valuesOf(committed)},
			"Filter":    {{"a", "b", "c"}, filtered},
		} {
			if diff := cmp.Diff(got[0], got[1]); diff != "" {
				t.Errorf("seen by the reader %s (-want +got):\n%s", reader, diff)
			}
		}
	})
}

// valuesOf leaves out markers, which have none.
func valuesOf(recs []*kgo.Record) (values []string) {
	for _, r := range recs {
		if len(r.Value) > 0 {
			values = append(values, string(r.Value))
		}
	}
	return values
}
