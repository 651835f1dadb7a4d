package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFeed(t *testing.T) {
	rec := func(o int64) *kgo.Record { return &kgo.Record{Offset: o, Value: make([]byte, 800)} } // 1000 bytes as size counts
	f := newFeed(0, 0, -1, 4000)
	if f.put([]*kgo.Record{rec(0), rec(1), rec(2)}, 10, nil) {
		t.Error("put below the limit: got pause")
	}
	if !f.put([]*kgo.Record{rec(4)}, 10, nil) {
		t.Error("put at the limit: got no pause")
	}
	if f.put([]*kgo.Record{rec(5)}, 12, nil) {
		t.Error("put while paused: got pause once more")
	}
	if recs, err := f.peek(2); len(recs) != 2 || recs[0].Offset != 0 || err != nil {
		t.Errorf("peek: got %d records, %v", len(recs), err)
	}
	if f.done(2) || f.resume() {
		t.Error("three of five left: got low, want at most half")
	}
	if recs, _ := f.peek(10); len(recs) != 3 || recs[0].Offset != 2 {
		t.Errorf("peek after done: got %d records, want those from 2 on", len(recs))
	}
	if !f.done(5) { // 3 is a gap, as compaction and transactions leave
		t.Error("one left: got not low")
	}
	if !f.resume() || f.resume() {
		t.Error("resume: want true once")
	}
	if got := f.lag(5); got != 7 {
		t.Errorf("lag: got %d, want 7", got)
	}
	boom := errors.New("boom")
	f.put(nil, -1, boom)
	f.put([]*kgo.Record{rec(9)}, 12, nil)
	if recs, err := f.peek(10); len(recs) != 1 || err != nil {
		t.Errorf("peek before an error: got %d records, %v, want what came before it", len(recs), err)
	}
	f.done(6)
	if recs, err := f.peek(10); recs != nil || err != boom {
		t.Errorf("peek at an error: got %d records, %v, want the error, and nothing after it", len(recs), err)
	}
}
