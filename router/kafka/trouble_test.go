package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

func records(from, to int64) []*kgo.Record {
	var recs []*kgo.Record
	for o := from; o < to; o++ {
		recs = append(recs, &kgo.Record{Offset: o})
	}
	return recs
}

// script runs a shard over [0, n) with some bad records, and returns what was tried: "0-7!" failed, "0-3" succeeded, "5x" was given up on.
func script(n int64, most, tries int, bad ...int64) []string {
	var tr trouble
	var log []string
	now := time.Unix(0, 0)
	for pos := int64(0); pos < n && len(log) < 200; {
		recs := records(pos, min(n, pos+int64(tr.limit(pos, most))))
		failed := false
		for _, b := range bad {
			failed = failed || pos <= b && b < Next(recs)
		}
		name := fmt.Sprintf("%d-%d", pos, Next(recs)-1)
		if !failed {
			log, pos = append(log, name), Next(recs)
			tr.succeeded(pos)
			continue
		}
		log = append(log, name+"!")
		now = now.Add(time.Second)
		if tr.failed(recs, tries, now) {
			log, pos = append(log, fmt.Sprintf("%dx", pos)), pos+1
			tr.gaveUp(pos)
		}
	}
	return log
}

func TestTrouble_SplitsUntilTheBadRecordStandsAlone(t *testing.T) {
	for _, tc := range []struct {
		n    int64
		bad  []int64
		want string
	}{
		{8, nil, "0-7"},
		{8, []int64{5}, "0-7! 0-7! 0-3 4-7! 4-5! 4-4 5-6! 5-5! 5-5! 5x 6-7"},
		{1, []int64{0}, "0-0! 0-0! 0x"},
		{3, []int64{0}, "0-2! 0-2! 0-1! 0-0! 0-0! 0x 1-2"},
		{10, []int64{9}, "0-7 8-9! 8-9! 8-8 9-9! 9-9! 9x"},
	} {
		got := strings.Join(script(tc.n, 8, 2, tc.bad...), " ")
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%d records, bad %v (-want +got):\n%s", tc.n, tc.bad, diff)
		}
	}
}

// A batch of 500 with one bad record costs some ten tries more, not hundreds.
func TestTrouble_TakesFewTries(t *testing.T) {
	for bad := int64(0); bad < 500; bad += 7 {
		if got := script(1000, 500, 1, bad); len(got) > 40 {
			t.Errorf("bad record %d: %d tries: %v", bad, len(got), got)
		}
	}
}

// What has failed is given up on only if something else has succeeded meanwhile, or after long, and never many in a row.
func TestTrouble_TellsABadRecordFromAnOutage(t *testing.T) {
	began := time.Unix(1000, 0)
	tr := trouble{since: began}
	for what, tc := range map[string]struct {
		now, good time.Time
		want      bool
	}{
		"nothing has succeeded":           {began.Add(time.Second), began.Add(-time.Second), false},
		"something has":                   {began.Add(2 * time.Second), began.Add(time.Second), true},
		"nothing has, for a minute":       {began.Add(alone), began.Add(-time.Second), true},
		"nothing ever, and not so long":   {began.Add(alone - 1), time.Time{}, false},
		"something has, before it failed": {began.Add(time.Second), began, false},
	} {
		if got := tr.mayGiveUp(tc.now, tc.good); got != tc.want {
			t.Errorf("%s: got %t, want %t", what, got, tc.want)
		}
	}
	for range mostDead {
		if !tr.mayGiveUp(began.Add(alone), time.Time{}) {
			t.Fatalf("after %d in a row: got false, want true", tr.dead)
		}
		tr.gaveUp(1)
	}
	tr.since = began
	if tr.mayGiveUp(began.Add(time.Hour), began.Add(time.Minute)) {
		t.Errorf("after %d in a row: got true, want false: it isn't the records", mostDead)
	}
	tr.succeeded(2)
	tr.since = began
	if !tr.mayGiveUp(began.Add(alone), time.Time{}) {
		t.Error("after a success: got false, want true")
	}
}

func TestTrouble_PassesAVerdictOnce(t *testing.T) {
	boom := errors.New("boom")
	tr := new(trouble)
	tr.failed(records(5, 6), 2, time.Unix(0, 0))
	tr.err = boom
	if got := tr.verdict(5, 2); got != nil {
		t.Errorf("after one failure of two: got %v, want nil", got)
	}
	tr.failed(records(5, 6), 2, time.Unix(0, 0))
	tr.err = boom
	if got := *tr; got.verdict(6, 2) != nil {
		t.Error("on another record, for that one was applied after all: got a verdict, want nil")
	}
	if got := tr.verdict(5, 2); got != boom {
		t.Errorf("after two: got %v, want %v", got, boom)
	}
	if got := tr.verdict(5, 2); got != nil {
		t.Errorf("once more: got %v, want nil: it is tried again", got)
	}
}

func TestBackoff(t *testing.T) {
	for n := 1; n < 100; n++ {
		most := lastWait
		if n < 10 {
			most = min(lastWait, firstWait<<(n-1))
		}
		if d := backoff(n); d <= most/2 || d > most {
			t.Errorf("backoff(%d): got %v, want above %v, at most %v", n, d, most/2, most)
		}
	}
}
