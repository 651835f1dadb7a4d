package router

import (
	"context"
	"net/http"
	"testing"

	"github.com/tenure-go/tenure/shard"
)

// TestHalfKnownOwnerIsAwaited: of an owner that a refusal names only ID and Address are known. Where Target needs more than that, the
// request waits for the table instead of failing.
func TestHalfKnownOwnerIsAwaited(t *testing.T) {
	g := newGroup(t, 1)
	c := g.peer("c", &fakeNode{}, HTTPConfig{}, says("c"))
	g.peer("b", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		epoch := g.claim("c", 0)
		return notOwner(shard.Member{ID: c.ID, Address: c.Address}, epoch)(ctx, key)
	}}, HTTPConfig{}, never(t, "b"))
	gw := g.gateway(HTTPConfig{Tries: 2, Target: func(m shard.Member) string {
		if m.Weight == 0 { // not from the member's record
			return ""
		}
		return m.Address
	}})
	g.claim("b", 0)
	gw.shows(t, "b")
	if got := do(t, request(t, http.MethodGet, gw.URL+"/k", nil)); got.Body != "c got" {
		t.Errorf("got %+v, want c's answer", got)
	}
}
