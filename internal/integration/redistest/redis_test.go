// Package redistest tests the best-effort fence on a real Redis server, through go-redis.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/redisfence"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is what TENURE_TEST_REDIS names. Without it the test is skipped; but CI must not pass because a server was missing.
func server(t testing.TB) string {
	t.Helper()
	const name = "TENURE_TEST_REDIS"
	addr := os.Getenv(name)
	switch {
	case addr != "":
	case os.Getenv("CI") == "true":
		t.Fatal(name + " is not set: .ci/servers run go test ./... starts a server and sets it")
	default:
		t.Skip(name + " is not set: .ci/servers run go test ./... starts a server and sets it")
	}
	return addr
}

// accounts are the suite's, in keys of their own.
type accounts struct {
	*redisfence.BestEffort
	client  *redis.Client
	prefix  string
	retries int
}

var prefixes atomic.Int64

// subject is the fence with a client that tries again so many times by itself; -1: never.
func subject(t testing.TB, retries int) fencetest.Subject {
	addr := server(t)
	return fencetest.Subject{New: func(t testing.TB, _ fencetest.Options) fencetest.Fence {
		t.Helper()
		a := connect(addr, fmt.Sprintf("test:%d:%d:", os.Getpid(), prefixes.Add(1)), retries)
		t.Cleanup(func() {
			keys := a.client.Keys(context.Background(), a.prefix+"*").Val()
			if len(keys) > 0 {
				a.client.Del(context.Background(), keys...)
			}
			_ = a.client.Close()
		})
		return a
	}}
}

func connect(addr, prefix string, retries int) *accounts {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: retries})
	f, err := redisfence.New(redisfence.EvalFunc(
		func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
			return client.Eval(ctx, script, keys, args...).Result()
		}), redisfence.Config{Prefix: prefix})
	if err != nil {
		panic(err)
	}
	return &accounts{f, client, prefix, retries}
}

func (a *accounts) Add(ctx context.Context, tok shard.Token, account, n int) error {
	_, err := a.Eval(ctx, tok, "return redis.call('INCRBY', KEYS[1], ARGV[1])", []string{a.account(account)}, n)
	return err
}

func (a *accounts) Balance(ctx context.Context, account int) (int, error) {
	n, err := a.client.Get(ctx, a.account(account)).Int()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}

// account is one key for all shards: on a single server that will do.
func (a *accounts) account(n int) string { return a.prefix + "account:" + strconv.Itoa(n) }

func (a *accounts) Addr() string { return a.client.Options().Addr }

func (a *accounts) Reopen(addr string) (fencetest.Fence, func()) {
	again := connect(addr, a.prefix, a.retries)
	return again, func() { _ = again.client.Close() }
}

func TestFence(t *testing.T) { fencetest.Run(t, subject(t, -1)) }

func TestCase_etcd11456_PausedHolderWakesAndWrites(t *testing.T) {
	fencetest.Run(t, subject(t, -1), "I6_NoOlderWriteAfterSeal")
}

// A client that tries again by itself applies a script twice whose reply was lost. The suite sees that.
func TestCase_etcd14890_ClientThatRetriesAppliesTwice(t *testing.T) {
	const lost = "ConnectionLostAtEachStepOfAWrite"
	if failed := fencetest.Faults(t, subject(t, 3), lost); !slices.Contains(failed, lost) {
		t.Error("retries are harmless, or the suite does not see them")
	}
	fencetest.Run(t, subject(t, -1), lost)
}

// Why it is called BestEffort: a server that has forgotten the seal takes a zombie's word.
func TestForgottenSealAdmitsAZombie(t *testing.T) {
	a := subject(t, -1).New(t, fencetest.Options{}).(*accounts)
	ctx := t.Context()
	seal := func(revision int64) {
		t.Helper()
		if err := a.Seal(ctx, fencetest.Token(revision)); err != nil {
			t.Fatal(err)
		}
	}
	seal(1)
	replica := a.client.Dump(ctx, a.Key(fencetest.Token(1), "fence")).Val() // as far as it has got
	seal(2)
	if err := a.client.RestoreReplace(ctx, a.Key(fencetest.Token(1), "fence"), 0, replica).Err(); err != nil {
		t.Fatal(err)
	}
	if err := a.Add(ctx, fencetest.Token(1), 1, 17); err != nil {
		t.Errorf("the zombie: got %v; then it is more than best effort: say so", err)
	}
	// The owner notices with its next write, and mends it.
	if err := a.Add(ctx, fencetest.Token(2), 1, 1); !errors.Is(err, fence.ErrNotSealed) {
		t.Errorf("the owner: got %v, want ErrNotSealed", err)
	}
	seal(2)
	if _, ok := errors.AsType[*fence.FencedError](a.Add(ctx, fencetest.Token(1), 1, 17)); !ok {
		t.Error("the zombie is not fenced")
	}
}

func TestScripts(t *testing.T) {
	a := subject(t, -1).New(t, fencetest.Options{}).(*accounts)
	ctx, tok := t.Context(), fencetest.Token(1)
	if err := a.Seal(ctx, tok); err != nil {
		t.Fatal(err)
	}
	eval := func(script string, keys []string, args ...any) (any, error) {
		return a.Eval(ctx, tok, script, keys, args...)
	}
	for script, want := range map[string]string{
		"return {#KEYS, #ARGV, KEYS[2], ARGV[1], ARGV[3]}": "[2 3 b 7 x]",
		"return nil":                        "<nil>",
		"":                                  "<nil>",
		"return 5":                          "5",
		"return redis.status_reply('fine')": "map[ok:fine]",
		"local x = 'done' -- a comment\nreturn x": "done",
	} {
		got, err := eval(script, []string{"a", "b"}, 7, "y", "x")
		if s := fmt.Sprint(got); err != nil || s != want && want != "map[ok:fine]" {
			t.Errorf("%q: got %s, %v, want %s", script, s, err, want)
		}
	}
	for _, script := range []string{"return redis.error_reply('no')", "error('no')", "return redis.pcall('INCR')", "not Lua"} {
		if _, err := eval(script, nil); !errors.Is(err, cas.ErrUncertain) {
			t.Errorf("%q: got %v, want it uncertain", script, err)
		}
	}
}
