package owner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/shard"
)

var accounts = shard.Group{Name: "accounts", Shards: 16}

func serve(ctx context.Context, t *owner.Tenure) error {
	t.Ready()
	<-ctx.Done()
	return nil
}

func TestNewRefuses(t *testing.T) {
	store := memkv.New()
	defer store.Close()
	for _, c := range []struct {
		name   string
		store  cas.Store
		group  shard.Group
		h      owner.Handler
		config owner.Config
		want   []string // words of the error
	}{
		{"no store", nil, accounts, serve, owner.Config{}, []string{"store"}},
		{"no handler", store, accounts, nil, owner.Config{}, []string{"handler"}},
		{"no name", store, shard.Group{Shards: 4}, serve, owner.Config{}, []string{"Name"}},
		{"bad name", store, shard.Group{Name: "Bank/1", Shards: 4}, serve, owner.Config{}, []string{"Bank/1"}},
		{"no shards", store, shard.Group{Name: "bank"}, serve, owner.Config{}, []string{"hards"}},
		{"too many shards", store, shard.Group{Name: "bank", Shards: 65537}, serve, owner.Config{}, []string{"65537", "65536"}},
		{"unknown hash", store, shard.Group{Name: "bank", Shards: 4, Hash: "crc"}, serve, owner.Config{}, []string{"crc"}},
		{"short TTL", store, accounts, serve, owner.Config{TTL: time.Second}, []string{"TTL", "1s", "2s"}},
		{"negative time", store, accounts, serve, owner.Config{DrainTimeout: -1}, []string{"DrainTimeout"}},
		{"negative members", store, accounts, serve, owner.Config{MinMembers: -1}, []string{"MinMembers"}},
		{"negative waiting", store, accounts, serve, owner.Config{MaxWaiting: -1}, []string{"MaxWaiting"}},
		{"address without host", store, accounts, serve, owner.Config{Address: ":8080"}, []string{"Address", ":8080", "10.0.0.7:8080"}},
		{"wildcard address", store, accounts, serve, owner.Config{Address: "0.0.0.0:8080"}, []string{"0.0.0.0:8080"}},
		{"wildcard address, IPv6", store, accounts, serve, owner.Config{Address: "[::]:8080"}, []string{"[::]:8080"}},
		{"address with a scheme", store, accounts, serve, owner.Config{Address: "http://a:8080"}, []string{"http://a:8080"}},
		{"address without port", store, accounts, serve, owner.Config{Address: "a"}, []string{`"a"`}},
		{"id with a slash", store, accounts, serve, owner.Config{ID: "a/b"}, []string{"a/b"}},
		{"huge meta", store, accounts, serve, owner.Config{Meta: map[string]string{"k": strings.Repeat("x", 5000)}}, []string{"eta"}},
		{"all at once", nil, shard.Group{}, nil, owner.Config{TTL: 1}, []string{"store", "handler", "TTL", "Name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := owner.New(c.store, c.group, c.h, c.config)
			if err == nil {
				t.Fatalf("got a node %v, want an error", n)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q, want it to name %q", err, w)
				}
			}
		})
	}
}

// runFor runs a node of its own on store until it ends or d has passed, and returns Run's error.
func runFor(t *testing.T, store cas.Store, g shard.Group, c owner.Config, d time.Duration) error {
	t.Helper()
	n, err := owner.New(store, g, serve, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return n.Run(ctx)
}

func TestRunRefusesAnotherConfig(t *testing.T) {
	for _, c := range []struct {
		name  string
		group shard.Group
		want  owner.ConfigError
	}{
		{"shards", shard.Group{Name: "accounts", Shards: 32}, owner.ConfigError{Field: "shards", Want: "32", Got: "16"}},
		{"hash", shard.Group{Name: "accounts", Shards: 16, Hash: shard.Murmur2}, owner.ConfigError{Field: "hash", Want: "murmur2", Got: "xxh64"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := ownertest.Start(t, 1, accounts, serve, owner.Config{})
				err := runFor(t, cl.Store, c.group, owner.Config{}, time.Minute)
				got, ok := errors.AsType[*owner.ConfigError](err)
				if !ok || *got != c.want {
					t.Errorf("got %v, want %v", err, &c.want)
				}
				if cas.OutcomeOf(err) != cas.NotApplied {
					t.Errorf("its outcome: got %v, want not applied", cas.OutcomeOf(err))
				}
			})
		})
	}
}

func TestRunRefusesANewerFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memkv.New()
		defer store.Close()
		key := layout.For(accounts).Config()
		if _, err := store.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put(key, []byte(`{"format":2,"shards":16}`))}}); err != nil {
			t.Fatal(err)
		}
		err := runFor(t, store, accounts, owner.Config{}, time.Minute)
		if got, ok := errors.AsType[*owner.ConfigError](err); !ok || got.Field != "format" {
			t.Errorf("got %v, want a ConfigError about the format", err)
		}
	})
}

func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := ownertest.Start(t, 1, accounts, serve, owner.Config{})
		if err := cl.Nodes[0].Run(t.Context()); err == nil || !strings.Contains(err.Error(), "once") {
			t.Errorf("a second Run: got %v, want an error that says once", err)
		}
		cl.Settle() // the first goes on
	})
}

// TestRunWaitsForTheStore: a store that can't be reached at the start is waited for, and ctx ends the wait.
func TestRunWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		client := server.Client()
		defer client.Close()
		client.Cut(true)
		start := time.Now()
		if err := runFor(t, client, accounts, owner.Config{}, time.Minute); err != nil {
			t.Errorf("Run until its context ended: got %v, want nil", err)
		}
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it took %v, want the minute of its context", took)
		}

		n, err := owner.New(client, accounts, serve, owner.Config{TTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.Run(ctx) }()
		time.Sleep(time.Minute)
		if err := n.Ready(); err == nil {
			t.Error("Ready before the first join: got nil")
		}
		if err := n.Live(); err != nil {
			t.Errorf("Live without a store: got %v, want nil", err)
		}
		client.Cut(false)
		time.Sleep(time.Minute)
		if err := n.Ready(); err != nil {
			t.Errorf("Ready once the store is there: got %v, want nil", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}

func TestIDTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := ownertest.Start(t, 1, accounts, serve, owner.Config{Address: "10.0.0.1:1"})
		second := cl.Store.Server().Client()
		defer second.Close()
		err := runFor(t, second, accounts, owner.Config{ID: "node-0", TTL: 2 * time.Second}, time.Minute)
		got, ok := errors.AsType[*owner.IDTakenError](err)
		if !ok || got.Other.ID != "node-0" || got.Other.Address != "10.0.0.1:1" {
			t.Errorf("got %v, want an IDTakenError that names the other", err)
		}
		cl.Settle() // the first is not disturbed
	})
}

// TestTakeover: a restarted process need not wait out its predecessor's TTL, and the predecessor, should it live
// against all promises, gives up instead of evicting back.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		first, second := server.Client(), server.Client()
		defer first.Close()
		defer second.Close()
		config := owner.Config{ID: "one", Takeover: true, TTL: 10 * time.Second}
		a, err := owner.New(first, accounts, serve, config)
		if err != nil {
			t.Fatal(err)
		}
		evicted := make(chan error, 1)
		bounded, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		go func() { evicted <- a.Run(bounded) }()
		time.Sleep(3 * time.Second)
		b, err := owner.New(second, accounts, serve, config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		time.Sleep(3 * time.Second)
		if got := len(b.Status().Shards); got != accounts.Shards {
			t.Errorf("shards at the successor 3 s after its start: got %d, want %d", got, accounts.Shards)
		}
		if _, ok := errors.AsType[*owner.IDTakenError](<-evicted); !ok {
			t.Error("the evicted process did not end with IDTakenError")
		}
		if got := len(b.Status().Shards); got != accounts.Shards {
			t.Errorf("shards at the successor in the end: got %d, want %d", got, accounts.Shards)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the successor's Run: got %v, want nil", err)
		}
	})
}

// TestRunGivesTheLeaseBack: a node that ends because it can't go on does not leave its shards dark for a TTL.
func TestRunGivesTheLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		k := layout.For(accounts)
		if _, err := s.server.Client().Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Delete(k.Config())}}); err != nil {
			t.Fatal(err)
		}
		if err := <-s.ended; err == nil {
			t.Error("Run without a config: got nil")
		}
		snap, err := s.client.List(t.Context(), k.Prefix())
		if err != nil || len(snap.Entries) != 0 {
			t.Errorf("keys in the store after Run: got %d, %v, want none", len(snap.Entries), err)
		}
		s.client.Close()
	})
}
