package router

import (
	"net/http"
	"testing"
)

// One hop: a node that a peer forwarded to does not forward.
func TestPeerIsRefusedNotForwarded(t *testing.T) {
	g := newGroup(t, 1)
	c := g.peer("c", &fakeNode{}, HTTPConfig{}, never(t, "c"))
	b := g.peer("b", &fakeNode{enter: notOwner(c.Member, 1000)}, HTTPConfig{}, never(t, "b"))
	gw := g.gateway(HTTPConfig{})
	g.claim("c", 0)
	b.shows(t, "c")
	gw.shows(t, "c")
	for _, p := range []*peer{b, gw} {
		r := request(t, "POST", p.URL+"/k", nil)
		r.Header.Set("Tenure-Hop", "abc")
		r.Header.Set("Tenure-Group", "g1")
		got := do(t, r)
		if got.Status != 421 || got.Header.Get("Tenure-Refused") != "abc" {
			t.Errorf("%q: got %d %v, want 421 for abc", p.ID, got.Status, got.Header)
		}
		if p == b && (got.Header.Get("Tenure-Owner") != "c" || got.Header.Get("Tenure-Epoch") != "0:1000") {
			t.Errorf("b's refusal: got %v, want owner c by 0:1000", got.Header)
		}
	}
}

// Who is no peer is a client, whatever it says.
func TestPeerIsChecked(t *testing.T) {
	g := newGroup(t, 1)
	g.peer("c", &fakeNode{}, HTTPConfig{}, says("c"))
	b := g.peer("b", &fakeNode{enter: knowsNobody}, HTTPConfig{
		Peer: func(r *http.Request) bool { return r.Header.Get("Tenure-Hop") == "" },
	}, never(t, "b"))
	g.claim("c", 0)
	b.shows(t, "c")
	r := request(t, "GET", b.URL+"/k", nil)
	r.Header.Set("Tenure-Hop", "abc")
	r.Header.Set("Tenure-Group", "g1")
	if got := do(t, r); got.Body != "c got" {
		t.Errorf("got %+v, want it forwarded to c", got)
	}
}
