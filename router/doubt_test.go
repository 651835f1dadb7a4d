package router

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// TestDoubtersDontPassARequestRound: nodes that are set up not to believe each other forward what they take for clients' requests.
// One that has come back to its own address would ask itself for ever.
func TestDoubtersDontPassARequestRound(t *testing.T) {
	g := newGroup(t, 1)
	var asked atomic.Int64
	doubts := HTTPConfig{Peer: func(*http.Request) bool { return false }}
	b := g.peer("b", &fakeNode{enter: func(context.Context, string) (context.Context, func(), error) {
		asked.Add(1)
		return nil, nil, &owner.NotOwnerError{}
	}}, doubts, never(t, "b"))
	g.join(shard.Member{ID: "old", Address: b.Address}) // restarted at its address
	g.claim("old", 0)
	b.shows(t, "old")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := http.DefaultClient.Do(request(t, http.MethodGet, b.URL+"/k", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Tenure-Outcome") != "not-applied" {
		t.Errorf("got %s, %v", res.Status, res.Header)
	}
	if asked.Load() > 3 {
		t.Errorf("the gate was asked %d times by one request", asked.Load())
	}
}
