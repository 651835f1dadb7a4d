package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEvent(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"o-1","number":1,"cents":5}`:         "",
		`{"id":"o-1","number":1,"cents":-5}`:        "", // for the database to refuse
		`{"id":"o-1","number":1,"ce`:                "unexpected EOF",
		`{"id":"o-1","number":1,"cents":5}{}`:       "follows",
		`{"number":1,"cents":5}`:                    "no id",
		`{"id":"o-1","number":1,"cents":5,"tip":1}`: "unknown field",
		`{"id":"o-1","number":1,"cents":1e400}`:     "cents",
		``:                                          "EOF",
	} {
		_, err := parseEvent([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestAccount(t *testing.T) {
	a := account{}.with(orders, event{"o-1", 1, 700}).with(payments, event{"p-2", 1, 1000}).with(orders, event{"o-3", 2, 50})
	want := account{Ordered: 750, Paid: 1000, Orders: 2, Payments: 1, LastOrder: "o-3"}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a.due() != -250 {
		t.Errorf("due: got %d, want -250", a.due())
	}
}
