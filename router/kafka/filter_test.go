package kafka

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

// framed are a batch's records as Append writes them; a value each, or none for a position or (batch 0) a marker.
func framed(epoch shard.Epoch, batch, next int64, values ...string) []*kgo.Record {
	recs := []*kgo.Record{{}}
	if len(values) > 0 {
		recs = nil
		for _, v := range values {
			recs = append(recs, &kgo.Record{Key: []byte("k"), Value: []byte(v)})
		}
	}
	f := frame{epoch: epoch, groupID: "G", batch: batch, next: next, count: len(values)}
	for i, r := range recs {
		f.index, f.last = i+1, i == len(recs)-1
		r.Headers = f.headers()
	}
	return recs
}

// logOf numbers records as a partition does.
func logOf(batches ...[]*kgo.Record) []*kgo.Record {
	var log []*kgo.Record
	for _, b := range batches {
		for _, r := range b {
			r.Offset = int64(len(log))
			log = append(log, r)
		}
	}
	return log
}

// passed is what a filter lets through of a log, from an offset on.
func passed(t testing.TB, f *Filter, log []*kgo.Record) []string {
	t.Helper()
	var got []string
	for _, r := range log {
		w, ok, err := f.Push(r)
		if err != nil {
			t.Fatalf("offset %d: %v", r.Offset, err)
		}
		if !ok {
			continue
		}
		if w.Marker {
			got = append(got, fmt.Sprintf("marker %d", w.Epoch))
			continue
		}
		var vs []string
		for _, r := range w.Records {
			vs = append(vs, string(r.Value))
		}
		got = append(got, fmt.Sprintf("%s@%d", strings.Join(vs, "+"), w.Next))
	}
	return got
}

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		name string
		log  []*kgo.Record
		want []string
		next int64
		drop int64
	}{
		{"nothing", nil, nil, -1, 0},
		{
			"batches, a position, one without", logOf(framed(5, 0, -1), framed(5, 1, 3, "a", "b"), framed(5, 2, 7), framed(5, 3, -1, "c")),
			[]string{"marker 5", "a+b@3", "@7", "c@-1"},
			7, 0,
		},
		{
			"a zombie after the marker", logOf(framed(5, 0, -1), framed(5, 1, 1, "a"), framed(9, 0, -1), framed(5, 2, 2, "evil"), framed(9, 1, 2, "b")),
			[]string{"marker 5", "a@1", "marker 9", "b@2"},
			2, 1,
		},
		{
			"a zombie's marker", logOf(framed(9, 0, -1), framed(9, 1, 1, "a"), framed(5, 0, -1), framed(5, 1, 9, "evil"), framed(9, 2, 2, "b")),
			[]string{"marker 9", "a@1", "b@2"},
			2, 2,
		},
		{
			"a zombie inside a batch",
			logOf(framed(5, 0, -1), framed(9, 0, -1), framed(9, 1, 1, "a", "b")[:1], framed(5, 1, 9, "evil"), framed(9, 1, 1, "a", "b")[1:]),
			[]string{"marker 5", "marker 9", "a+b@1"},
			1, 1,
		},
		{
			"a marker inside a zombie's batch",
			logOf(framed(5, 0, -1), framed(5, 1, 1, "a", "b")[:1], framed(9, 0, -1), framed(5, 1, 1, "a", "b")[1:], framed(9, 1, 1, "c")),
			[]string{"marker 5", "marker 9", "c@1"},
			1, 2,
		},
		{
			"an owner that died in a batch", logOf(framed(5, 0, -1), framed(5, 1, 1, "a", "b", "c")[:2], framed(9, 0, -1)),
			[]string{"marker 5", "marker 9"},
			-1, 2,
		},
		{
			"a reader that begins inside a batch", logOf(framed(5, 1, 1, "a", "b")[1:], framed(5, 2, 2, "c")),
			[]string{"c@2"},
			2, 1,
		},
		{
			"a batch twice", logOf(framed(5, 0, -1), framed(5, 1, 1, "a", "b"), framed(5, 1, 1, "a", "b"), framed(5, 2, 2, "c")),
			[]string{"marker 5", "a+b@1", "c@2"},
			2, 2,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var f Filter
			got := passed(t, &f, tc.log)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("passed (-want +got):\n%s", diff)
			}
			if f.Next() != tc.next || f.Dropped() != tc.drop {
				t.Errorf("next, dropped: got %d, %d, want %d, %d", f.Next(), f.Dropped(), tc.next, tc.drop)
			}
		})
	}
}

// What an owner had acknowledged before it went on can't be missing; its marker neither, unless the reader began after it.
func TestFilter_NoticesAHole(t *testing.T) {
	for what, log := range map[string][]*kgo.Record{
		"a marker":         logOf(framed(5, 0, -1), framed(9, 1, 1, "a")),
		"a marker, begun":  logOf(framed(5, 0, -1), framed(9, 1, 1, "a", "b")[1:]),
		"a position first": logOf(framed(5, 2, 1, "a"), framed(9, 3, 2)),
		"a batch":          logOf(framed(5, 0, -1), framed(5, 2, 1, "b")),
		"a batch's end":    logOf(framed(5, 0, -1), framed(5, 1, 1, "a", "b")[:1], framed(5, 2, 1, "c")),
		"a batch's middle": logOf(framed(5, 0, -1), framed(5, 1, 1, "a", "b", "c")[:1], framed(5, 1, 1, "a", "b", "c")[2:]),
	} {
		var f Filter
		var err error
		for _, r := range log {
			if err == nil {
				_, _, err = f.Push(r)
			}
		}
		if err == nil || !strings.Contains(err.Error(), "lost records") {
			t.Errorf("%s is missing: got %v, want an error", what, err)
		}
	}
}

// A reader with a checkpoint at 12 of a log that was cut to 3 and has grown past 12, under an owner that began in between.
func TestFilter_NoticesALogThatHasGrownAnew(t *testing.T) {
	f := Filter{Epoch: 5}
	if _, ok, err := f.Push(framed(9, 4, 7, "d")[0]); err == nil || ok || !strings.Contains(err.Error(), "grown anew") {
		t.Errorf("got %t, %v, want an error", ok, err)
	}
	if diff := cmp.Diff(Filter{Epoch: 5}, f, cmp.AllowUnexported(Filter{})); diff != "" {
		t.Errorf("an error has changed the filter (-before +after):\n%s", diff)
	}
}

func TestFilter_RefusesStrangers(t *testing.T) {
	var f Filter
	passed(t, &f, logOf(framed(5, 0, -1)))
	before := f
	other := framed(9, 0, -1)[0]
	other.Headers = frame{epoch: 9, groupID: "OTHER", index: 1, last: true, next: -1}.headers()
	_, _, err := f.Push(other)
	if e, ok := errors.AsType[*LogGroupError](err); !ok || e.Mine != "G" || e.Theirs != "OTHER" {
		t.Errorf("another group's: got %v, want LogGroupError", err)
	}
	for what, r := range map[string]*kgo.Record{
		"plain":           {Value: []byte("v")},
		"no frame":        {Headers: framed(9, 0, -1)[0].Headers[:1]},
		"two epochs":      {Headers: append(framed(9, 0, -1)[0].Headers, kgo.RecordHeader{Key: HeaderEpoch, Value: []byte("1")})},
		"newer format":    {Headers: []kgo.RecordHeader{{Key: HeaderEpoch, Value: []byte("9")}, {Key: HeaderFrame, Value: []byte("2 G 0 1 0 -1")}}},
		"no last in zero": {Headers: []kgo.RecordHeader{{Key: HeaderEpoch, Value: []byte("9")}, {Key: HeaderFrame, Value: []byte("1 G 0 1 - -")}}},
		"epoch zero":      {Headers: []kgo.RecordHeader{{Key: HeaderEpoch, Value: []byte("0")}, {Key: HeaderFrame, Value: []byte("1 G 0 1 0 -1")}}},
	} {
		if _, _, err := f.Push(r); err == nil {
			t.Errorf("%s: got nil, want an error", what)
		}
	}
	if diff := cmp.Diff(before, f, cmp.AllowUnexported(Filter{})); diff != "" {
		t.Errorf("an error has changed the filter (-before +after):\n%s", diff)
	}
}

// story makes a log of owners that follow one another while those before may still write, and returns it with what counts. Each writer
// writes its records one by one, and any may be the next to get one in.
func story(r *rand.Rand) (log []*kgo.Record, want []string) {
	type writer struct {
		epoch shard.Epoch
		batch int64
		left  []*kgo.Record // of the batch under way
	}
	var writers []*writer
	put := func(rec *kgo.Record) {
		rec.Offset = int64(len(log))
		log = append(log, rec)
	}
	var next int64
	name := ""
	for range 5 + r.IntN(60) {
		if len(writers) == 0 || r.IntN(6) == 0 {
			w := &writer{epoch: shard.Epoch(len(writers)+1) * 10}
			writers = append(writers, w)
			put(framed(w.epoch, 0, -1)[0])
			want = append(want, fmt.Sprintf("marker %d", w.epoch))
			continue
		}
		w := writers[max(0, len(writers)-1-r.IntN(3))]
		rightful := w == writers[len(writers)-1]
		if len(w.left) == 0 {
			w.batch++
			next++
			var values []string
			for range r.IntN(4) {
				values = append(values, fmt.Sprintf("%d.%d", w.epoch, next))
			}
			w.left = framed(w.epoch, w.batch, next, values...)
			if rightful {
				name = fmt.Sprintf("%s@%d", strings.Join(values, "+"), next)
			}
		}
		put(w.left[0])
		w.left = w.left[1:]
		if rightful && len(w.left) == 0 {
			want = append(want, name)
		}
	}
	return log, want
}

// Every reader comes to what the rightful owners wrote, whoever else wrote, and one that stops anywhere goes on from Resume to the same.
func TestFilter_EveryReaderAgrees(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		log, want := story(r)
		var whole Filter
		if diff := cmp.Diff(want, passed(t, &whole, log)); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		cut := r.IntN(len(log) + 1)
		var first Filter
		got := passed(t, &first, log[:cut])
		second := Filter{Epoch: first.Epoch}
		got = append(got, passed(t, &second, log[first.Resume():])...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, stopped at %d, went on at %d (-want +got):\n%s", seed, cut, first.Resume(), diff)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add("281474976710656", "1 G 0 1 0 -1", "5", "1 G 1 1 - -")
	f.Add("9", "1 G 1 2 2 7", "9", "1 G 1 1 1 0")
	f.Fuzz(func(t *testing.T, epoch1, frame1, epoch2, frame2 string) {
		var f Filter
		for i, h := range [][2]string{{epoch1, frame1}, {epoch2, frame2}, {epoch1, frame1}} {
			r := &kgo.Record{Offset: int64(i), Headers: []kgo.RecordHeader{{Key: HeaderEpoch, Value: []byte(h[0])}, {Key: HeaderFrame, Value: []byte(h[1])}}}
			was := f.Epoch
			w, ok, err := f.Push(r)
			if f.Epoch < was || f.Resume() > int64(i)+1 || err != nil && ok {
				t.Fatalf("epoch %d to %d, resume %d, %v", was, f.Epoch, f.Resume(), err)
			}
			if ok && (w.Epoch != f.Epoch || w.Next < -1) {
				t.Fatalf("got %+v under epoch %d", w, f.Epoch)
			}
			if fr, ours, err := readFrame(r); ours && err == nil {
				again := &kgo.Record{Headers: fr.headers()}
				if back, _, err := readFrame(again); err != nil || back != fr {
					t.Fatalf("written again: got %+v, %v, want %+v", back, err, fr)
				}
			}
		}
	})
}
