package router

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

func TestTableRefusesOtherConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			config layout.Config
			want   owner.ConfigError
		}{
			{"shards", layout.Config{Format: 1, Shards: 8, Hash: shard.XXH64}, owner.ConfigError{Field: "shards", Want: "4", Got: "8"}},
			{"hash", layout.Config{Format: 1, Shards: 4, Hash: shard.Murmur2}, owner.ConfigError{Field: "hash", Want: "xxh64", Got: "murmur2"}},
		} {
			g := emptyGroup(t, 4)
			late, _ := g.open() // of a group that is declared only afterwards
			g.configAs(c.config)
			_, err := Open(t.Context(), g.store, g.decl, nil)
			got, ok := errors.AsType[*owner.ConfigError](err)
			if !ok {
				t.Fatalf("%s: Open: got %v, want a ConfigError", c.name, err)
			}
			if diff := cmp.Diff(c.want, *got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
			g.join(shard.Member{ID: "a"})
			g.claim("a", 0)
			synctest.Wait()
			if ids := owners(late); ids[0] != "" {
				t.Errorf("%s: table of another config shows owner %q, want none", c.name, ids[0])
			}
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	store := memkv.New()
	defer store.Close()
	closed := memkv.New()
	closed.Close()
	good := shard.Group{Name: "accounts", Shards: 4}
	for _, c := range []struct {
		name  string
		store cas.Store
		group shard.Group
		want  string
	}{
		{"no store", nil, good, "needs a store"},
		{"no name", store, shard.Group{Shards: 4}, "Group.Name"},
		{"closed store", closed, good, "closed"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // waiting would not mend it
		_, err := Open(ctx, c.store, c.group, nil)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says %q", c.name, err, c.want)
		} else if cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: outcome: got %v, want not applied", c.name, cas.OutcomeOf(err))
		}
	}
}

func TestOpenWaitsForStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		c := g.server.Client()
		defer c.Close()
		c.Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Open(ctx, c, g.decl, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Open without the store: got %v, want the context's error", err)
		} else if cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("Open without the store: outcome: got %v, want not applied", cas.OutcomeOf(err))
		}

		time.AfterFunc(30*time.Second, func() { c.Cut(false) })
		table, err := Open(t.Context(), c, g.decl, nil)
		if err != nil {
			t.Fatalf("Open: got %v, want success once the store is there", err)
		}
		table.Close()
	})
}

// TestOpenReturnsOnceShown: what Open returns shows the whole first list, however long that takes.
func TestOpenReturnsOnceShown(t *testing.T) {
	g := newGroup(t, shard.MaxShards)
	g.join(shard.Member{ID: "a"})
	all := make([]int, shard.MaxShards)
	for s := range all {
		all[s] = s
	}
	g.claim("a", all...)
	table, _ := g.open()
	for s := range all {
		if table.board.Owner(s) == nil {
			t.Fatalf("shard %d has no owner right after Open", s)
		}
	}
}
