package shard_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tenure-go/tenure/shard"
)

func TestMemberValidate(t *testing.T) {
	for _, m := range []shard.Member{
		{ID: "n"},
		{ID: strings.Repeat("é", 127), Weight: shard.MaxWeight},
		{ID: "pod-0.svc:8080", Address: "[::1]:80", Zone: "a", Version: "v1", Weight: -shard.MaxWeight, Draining: true},
		{ID: "n", Meta: map[string]string{"grpc": "10.0.0.1:99\n", "empty": ""}},
		{ID: "n", Meta: map[string]string{"k": strings.Repeat("v", 4095)}},
	} {
		if err := m.Validate(); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	for _, c := range []struct {
		why  string
		m    shard.Member
		want []string
	}{
		{"zero", shard.Member{}, []string{"Member.ID \"\": missing"}},
		{
			"everything",
			shard.Member{ID: "a/b", Address: "\x00", Zone: "\xff", Version: strings.Repeat("v", 256), Weight: math.MaxInt, Meta: map[string]string{"": "x"}},
			[]string{"Member.ID", "Member.Address", "Member.Zone", "Member.Version", "Member.Weight", "Member.Meta"},
		},
		{"long", shard.Member{ID: strings.Repeat("a", 256)}, []string{"256 bytes: want at most 255"}},
		{"control", shard.Member{ID: "a\tb"}, []string{"control character at byte 1"}},
		{"C1 control", shard.Member{ID: "a\u0085"}, []string{"control character"}},
		{"UTF-8", shard.Member{ID: "\xc3"}, []string{"UTF-8"}},
		{"light", shard.Member{ID: "a", Weight: math.MinInt}, []string{"want -1000000 to 1000000"}},
		{"heavy", shard.Member{ID: "a", Weight: shard.MaxWeight + 1}, []string{"Member.Weight 1000001"}},
		{"meta value", shard.Member{ID: "a", Meta: map[string]string{"b": "\xff", "a": "\xff"}}, []string{"Member.Meta \"a\"", "Member.Meta \"b\""}},
		{"much meta", shard.Member{ID: "a", Meta: map[string]string{"k": strings.Repeat("v", 4096)}}, []string{"Member.Meta: 4097 bytes"}},
	} {
		checkFaults(t, c.why, c.m.Validate(), c.want)
	}
}

func TestMemberAndTokenJSON(t *testing.T) {
	tok := shard.Token{Group: "accounts", GroupID: "f00", Shard: 12, Epoch: epoch(t, 32, 1)}
	b, err := json.Marshal(tok)
	if want := `{"group":"accounts","group_id":"f00","shard":12,"epoch":"9007199254740993"}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
	var got shard.Token
	if err := json.Unmarshal(b, &got); err != nil || got != tok {
		t.Errorf("got %+v, %v, want %+v", got, err, tok)
	}
	if err := json.Unmarshal([]byte(`{"epoch":9007199254740993}`), &got); err == nil {
		t.Errorf("a number was taken: %s", got)
	}
	if s := tok.String(); s != "accounts/00012@32:1" {
		t.Error(s)
	}
	if tok.IsZero() || !(shard.Token{}).IsZero() {
		t.Error("IsZero")
	}

	m := shard.Member{ID: "n", Weight: -1, Draining: true, Meta: map[string]string{"a": "b"}}
	if b, err = json.Marshal(m); err != nil || string(b) != `{"id":"n","weight":-1,"draining":true,"meta":{"a":"b"}}` {
		t.Errorf("got %s, %v", b, err)
	}
	var back shard.Member
	if err := json.Unmarshal(b, &back); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(m, back); diff != "" {
		t.Error(diff)
	}
}
