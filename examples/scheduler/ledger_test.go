package main

import (
	"strings"
	"testing"
	"time"
)

// TestVerdict: the witness sees what is wrong.
func TestVerdict(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }
	post := func(s int, key string) report { return report{Node: "n", At: at(s), What: posted, Key: key} }
	for _, c := range []struct {
		name  string
		lines []report
		want  string // of the error; "" if all is well
	}{
		{"in order", []report{post(1, "a"), post(2, "b")}, ""},
		{"posted again", []report{post(1, "a"), post(1, "a"), post(2, "b")}, ""},
		{"nothing", nil, "no run was finished"},
		{"left out", []report{post(1, "a"), post(3, "b")}, "left out"},
		{"twice", []report{post(1, "a"), post(1, "b")}, "accepted twice"},
		{"out of order", []report{post(2, "a"), post(1, "b")}, "came after"},
		{"one key", []report{post(1, "a"), post(2, "a")}, "the same key"},
	} {
		l := newLedger(time.Second)
		for _, r := range c.lines {
			l.take(r)
		}
		err := l.verdict()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
