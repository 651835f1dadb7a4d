package redisfence_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/redisfence"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var token = shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: 33<<48 | 5}

// reply is a server that says this and nothing else. The scripts themselves are tested against a real one.
func reply(v any, err error) redisfence.EvalFunc {
	return func(context.Context, string, []string, ...any) (any, error) { return v, err }
}

func TestReplies(t *testing.T) {
	current := "9288674231451654" // 33:6
	for name, test := range map[string]struct {
		eval redisfence.EvalFunc
		want func(any, error) bool
	}{
		"a value":     {reply([]any{int64(1), "x"}, nil), func(v any, err error) bool { return v == "x" && err == nil }},
		"nil":         {reply([]any{int64(1)}, nil), func(v any, err error) bool { return v == nil && err == nil }},
		"fenced":      {reply([]any{int64(0), "9f86d081", current}, nil), func(_ any, err error) bool { return isFenced(err, 33<<48|6) }},
		"fenced, raw": {reply([]any{int64(0), []byte("9f86d081"), []byte(current)}, nil), func(_ any, err error) bool { return isFenced(err, 33<<48|6) }},
		"not sealed":  {reply([]any{int64(0), "", "0"}, nil), func(_ any, err error) bool { return errors.Is(err, fence.ErrNotSealed) }},
		"foreign": {reply([]any{int64(0), "0cc175b9", current}, nil), func(_ any, err error) bool {
			_, ok := errors.AsType[*fence.GroupError](err)
			return ok
		}},
		"lost":        {reply(nil, io.ErrUnexpectedEOF), uncertain},
		"no array":    {reply("OK", nil), uncertain},
		"empty":       {reply([]any{}, nil), uncertain},
		"no number":   {reply([]any{int64(0), "", "x"}, nil), uncertain},
		"short":       {reply([]any{int64(0)}, nil), uncertain},
		"no refusal":  {reply([]any{int64(0), "9f86d081", "9288674231451653"}, nil), uncertain},
		"other types": {reply([]any{1, "x"}, nil), uncertain},
	} {
		f, err := redisfence.New(test.eval, redisfence.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := f.Eval(t.Context(), token, "return 1", nil); !test.want(v, err) {
			t.Errorf("%s: got %v, %v (%s)", name, v, err, cas.OutcomeOf(err))
		}
	}
}

func isFenced(err error, current shard.Epoch) bool {
	e, ok := errors.AsType[*fence.FencedError](err)
	return ok && *e == fence.FencedError{Mine: token.Epoch, Current: current}
}

func uncertain(_ any, err error) bool {
	return errors.Is(err, cas.ErrUncertain) && cas.OutcomeOf(err) == cas.Uncertain
}

func TestArguments(t *testing.T) {
	if _, err := redisfence.New(nil, redisfence.Config{}); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("New without an Evaler: got %v", err)
	}
	var keys []string
	var args []any
	f, err := redisfence.New(redisfence.EvalFunc(func(_ context.Context, _ string, k []string, a ...any) (any, error) {
		keys, args = k, a
		return []any{int64(1)}, nil
	}), redisfence.Config{Prefix: "app:"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Eval(t.Context(), token, "return 1", []string{f.Key(token, "visits")}, 17); err != nil {
		t.Error(err)
	}
	if want := []string{"app:{accounts/7}:fence", "app:{accounts/7}:visits"}; !slices.Equal(keys, want) {
		t.Errorf("keys: got %q, want %q, in one slot", keys, want)
	}
	if want := []any{"9f86d081", "0009288674231451653", 17}; !slices.Equal(args, want) {
		t.Errorf("args: got %v, want %v", args, want)
	}

	keys = nil
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Eval(ended, token, "return 1", nil); err == nil || cas.OutcomeOf(err) != cas.NotApplied || keys != nil {
		t.Errorf("under an ended context: got %v (%s), keys %q, want nothing sent", err, cas.OutcomeOf(err), keys)
	}
	if err := f.Seal(t.Context(), shard.Token{}); !errors.Is(err, fence.ErrToken) || keys != nil {
		t.Errorf("the zero Token: got %v", err)
	}
}
