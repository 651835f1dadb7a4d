package router

import (
	"context"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// otherGroup has the same declaration as that of newGroup, in a store of its own: production beside staging.
func otherGroup(t *testing.T) *group {
	g := emptyGroup(t, 1)
	g.configAs(layout.Config{Format: 1, ID: "g2", Shards: 1, Hash: shard.XXH64})
	return g
}

// A dead node's address was given to a node of another cluster, whose group has the same name.
func TestOtherClusterIsRefused(t *testing.T) {
	staging, prod := newGroup(t, 1), otherGroup(t)
	b := prod.peer("b", &fakeNode{}, HTTPConfig{}, never(t, "prod's b"))
	a := staging.peer("a", &fakeNode{enter: knowsNobody, wait: 50 * time.Millisecond}, HTTPConfig{}, never(t, "a"))
	staging.join(shard.Member{ID: "b", Address: b.Address})
	staging.claim("b", 0)
	a.shows(t, "b")
	got := do(t, request(t, "POST", a.URL+"/k", nil))
	if got.Status != 503 || got.Header.Get("Tenure-Outcome") != "not-applied" {
		t.Errorf("got %+v, want 503, not applied", got)
	}
}

// No hop passes between a node and one that can't tell which group it is of.
func TestUnknownGroupIsRefused(t *testing.T) {
	known, unknown := newGroup(t, 1), emptyGroup(t, 1)
	for _, c := range []struct {
		name string
		in   *group
		says string
	}{
		{"sender says nothing", known, ""},
		{"sender says the name", known, "accounts"},
		{"receiver knows nothing", unknown, "g1"},
		{"neither knows", unknown, ""},
	} {
		b := c.in.peer("b", &fakeNode{wait: 50 * time.Millisecond}, HTTPConfig{}, never(t, c.name))
		r := request(t, "POST", b.URL+"/k", nil)
		r.Header.Set("Tenure-Hop", "abc")
		r.Header.Set("Tenure-Group", c.says)
		if got := do(t, r); got.Status != 421 || got.Header.Get("Tenure-Refused") != "abc" {
			t.Errorf("%s: got %d %v, want 421 for abc", c.name, got.Status, got.Header)
		}
	}
}

// A peer's table was quicker than the owner's own.
func TestTableOfOwnerIsAwaited(t *testing.T) {
	g := emptyGroup(t, 1)
	b := g.peer("b", &fakeNode{}, HTTPConfig{}, says("b"))
	waits := time.AfterFunc(50*time.Millisecond, func() { g.config(0) })
	defer waits.Stop()
	r := request(t, "POST", b.URL+"/k", nil)
	r.Header.Set("Tenure-Hop", "abc")
	r.Header.Set("Tenure-Group", "g1")
	if got := do(t, r); got.Body != "b got" {
		t.Errorf("got %+v, want b's answer", got)
	}
}

// This node's gate has heard of an owner, and its table not even of the group: nothing is sent before it has.
func TestNothingIsSentWithoutGroup(t *testing.T) {
	g := emptyGroup(t, 1)
	b := g.peer("b", &fakeNode{wait: time.Millisecond}, HTTPConfig{}, says("b"))
	a := g.peer("a", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		time.AfterFunc(50*time.Millisecond, func() { g.config(0) })
		return notOwner(b.Member, 1000)(ctx, key)
	}}, HTTPConfig{Tries: 1}, never(t, "a"))
	if got := do(t, request(t, "POST", a.URL+"/k", nil)); got.Body != "b got" {
		t.Errorf("got %+v, want b's answer", got)
	}
}

// A table that shows nothing, since the store's group is another one, has no group to name.
func TestTableKnowsGroupWhileItFits(t *testing.T) {
	g := newGroup(t, 1)
	table, _ := g.open()
	if got := table.id(); got != "g1" {
		t.Errorf("got %q, want g1", got)
	}
	for _, c := range []struct {
		shards int
		want   string
	}{{2, ""}, {1, "g3"}} {
		g.configAs(layout.Config{Format: 1, ID: "g3", Shards: c.shards, Hash: shard.XXH64})
		until(t, "the table has group "+c.want, func() bool { return table.id() == c.want })
	}
}
