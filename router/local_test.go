package router

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A request that has come to its owner costs the gate, which has a test of its own in package owner, and a copy of the request for the
// context with the tenure in it.
func TestLocalPathAllocations(t *testing.T) {
	g := newGroup(t, 1)
	table, _ := g.open()
	web, err := newHTTP(table, &fakeNode{group: g.decl}, HTTPConfig{})
	if err != nil {
		t.Fatal(err)
	}
	h := web.Handler(Header("X-Account"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest("POST", "/", nil)
	r.Header = http.Header{"X-Account": {"alice"}, "Content-Type": {"application/json"}, "User-Agent": {"test"}}
	w := httptest.NewRecorder()
	if got := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); got > 1 {
		t.Errorf("got %v allocations for a request, want at most 1", got)
	}
}
