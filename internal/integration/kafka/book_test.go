package kafka

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// book makes entries, and knows what the ledger should hold when all are applied once and in order.
type book struct {
	want  map[string]account
	count int64
}

func newBook() *book { return &book{want: make(map[string]account)} }

// entries makes n records of random keys.
func (b *book) entries(topic string, keys, n int) []*kgo.Record {
	recs := make([]*kgo.Record, n)
	for i := range recs {
		recs[i] = b.entry(topic, fmt.Sprintf("key-%d", rand.IntN(keys)))
	}
	return recs
}

func (b *book) entry(topic, key string) *kgo.Record {
	e := entry{seq: b.want[key].Seq + 1, amount: rand.Int64N(100)}
	b.want[key] = b.want[key].add(e)
	b.count++
	return &kgo.Record{Topic: topic, Key: []byte(key), Value: e.value()}
}

// check waits until the ledger has as many entries as were made, and compares.
func (b *book) check(t testing.TB, l *ledger) {
	t.Helper()
	until(t, fmt.Sprintf("the ledger has %d entries", b.count), func() bool { return l.applied() >= b.count })
	if diff := cmp.Diff(b.want, l.all()); diff != "" {
		t.Errorf("ledger: each entry once and in order (-want +got):\n%s", diff)
	}
}
