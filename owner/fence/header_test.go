package fence_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func TestHeader(t *testing.T) {
	for _, tok := range []shard.Token{
		token(1),
		{Group: "a", GroupID: "B_c.d-9", Shard: 0, Epoch: 1},
		{Group: "a", GroupID: "b", Shard: 65535, Epoch: shard.MaxLineage<<48 | shard.MaxRevision},
		{Group: "a", GroupID: "b", Shard: 1, Epoch: 32<<48 | 1}, // the first that a double rounds
	} {
		h := http.Header{"Tenure-Token": {"somebody/else/0/1"}}
		fence.SetHeader(h, tok)
		got, err := fence.FromHeader(h)
		if err != nil {
			t.Errorf("%v: %v", tok, err)
		}
		if diff := cmp.Diff(tok, got); diff != "" {
			t.Errorf("-sent +received:\n%s", diff)
		}
	}
	h := http.Header{}
	fence.SetHeader(h, token(1))
	if got, want := h.Get("Tenure-Token"), "accounts/9f86d081/7/9288674231451649"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	fence.SetHeader(h, shard.Token{})
	if len(h) != 0 {
		t.Errorf("got %v, want no header for the zero Token", h)
	}
}

func TestFromHeaderIsStrict(t *testing.T) {
	const good = "accounts/9f86d081/7/9288674231451649"
	for name, values := range map[string][]string{
		"none":             nil,
		"two":              {good, good},
		"empty":            {""},
		"list":             {good + ", " + good},
		"three parts":      {"accounts/9f86d081/7"},
		"five parts":       {good + "/1"},
		"no group":         {"/9f86d081/7/1"},
		"no group id":      {"accounts//7/1"},
		"space":            {"accounts/9f86d081/7/ 1"},
		"shard sign":       {"accounts/9f86d081/+7/1"},
		"shard zeros":      {"accounts/9f86d081/007/1"},
		"shard negative":   {"accounts/9f86d081/-1/1"},
		"shard too high":   {"accounts/9f86d081/65536/1"},
		"shard not a num":  {"accounts/9f86d081/x/1"},
		"epoch zero":       {"accounts/9f86d081/7/0"},
		"epoch sign":       {"accounts/9f86d081/7/+1"},
		"epoch zeros":      {"accounts/9f86d081/7/01"},
		"epoch negative":   {"accounts/9f86d081/7/-1"},
		"epoch a double":   {"accounts/9f86d081/7/9.28e15"},
		"epoch text form":  {"accounts/9f86d081/7/33:1"},
		"epoch too high":   {"accounts/9f86d081/7/9223372036854775808"},
		"epoch hex":        {"accounts/9f86d081/7/0x1"},
		"no revision":      {"accounts/9f86d081/7/281474976710656"},
		"long":             {string(make([]byte, 1<<20))},
		"newline in group": {"acc\nounts/9f86d081/7/1"},
	} {
		h := http.Header{}
		for _, v := range values {
			h.Add("Tenure-Token", v)
		}
		got, err := fence.FromHeader(h)
		wantIs(t, err, fence.ErrToken)
		if !got.IsZero() {
			t.Errorf("%s: got %v beside the error, want the zero Token", name, got)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

func FuzzFromHeader(f *testing.F) {
	f.Add("accounts/9f86d081/7/9288674231451649")
	f.Add("a/b/0/1")
	f.Fuzz(func(t *testing.T, value string) {
		tok, err := fence.FromHeader(http.Header{"Tenure-Token": {value}})
		if err != nil {
			return
		}
		h := http.Header{}
		fence.SetHeader(h, tok)
		if got := h.Get("Tenure-Token"); got != value {
			t.Errorf("accepted %q, which SetHeader writes as %q", value, got)
		}
	})
}
