package router

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner"
)

// The head of an answer does not wait for its body, not even where its length is known.
func TestHeadOfAnswerIsFlushed(t *testing.T) {
	next := make(chan struct{})
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		http.NewResponseController(w).Flush()
		select {
		case <-next:
		case <-time.After(10 * time.Second):
			t.Error("the client has no head 10s after it was flushed")
		}
		io.WriteString(w, "ok")
	})
	res, err := client(t).Do(request(t, "GET", gw.URL+"/k", nil))
	close(next)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); string(body) != "ok" || err != nil {
		t.Errorf("got %q %v, want ok", body, err)
	}
}

// The owner has too many that wait: the client is told so at once, and when to come again.
func TestBusyOwner(t *testing.T) {
	var asked atomic.Int64
	g := newGroup(t, 1)
	g.peer("b", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		asked.Add(1)
		return ctx, nil, fmt.Errorf("1024 wait: %w", owner.ErrBusy)
	}}, HTTPConfig{}, never(t, "b"))
	gw := g.gateway(HTTPConfig{})
	g.claim("b", 0)
	gw.shows(t, "b")
	got := do(t, request(t, "POST", gw.URL+"/k", nil))
	if got.Status != 503 || got.Header.Get("Retry-After") != "1" || got.Header.Get("Tenure-Outcome") != "not-applied" || asked.Load() != 1 {
		t.Errorf("got %+v after asking %d times, want 503 with Retry-After after one", got, asked.Load())
	}
}

// What the owner's answer says of its own connection is no business of the client's.
func TestAnswersHopHeadersStay(t *testing.T) {
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Connection", "X-Private")
		h.Set("X-Private", "between nodes")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Proxy-Authenticate", "Basic")
		h.Set("X-Mine", "yes")
	})
	got := do(t, request(t, "GET", gw.URL+"/k", nil))
	for _, name := range []string{"X-Private", "Keep-Alive", "Proxy-Authenticate"} {
		if v := got.Header.Get(name); v != "" {
			t.Errorf("%s: got %q, want it removed", name, v)
		}
	}
	if got.Header.Get("X-Mine") != "yes" {
		t.Errorf("got %v, want X-Mine", got.Header)
	}
}
