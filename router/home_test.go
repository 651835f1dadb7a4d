package router

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// noDial is for a node that has nobody to talk to, itself least of all.
type noDial struct{ t *testing.T }

func (n noDial) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("sent a request to %s, want none sent", r.URL.Host)
	return nil, errors.New("must not be sent")
}

// The node's own gate did not know yet what its table knows: it is the owner.
func TestTurnsBackHome(t *testing.T) {
	for _, size := range []int{0, 10, 1 << 20} {
		g := newGroup(t, 1)
		var asked atomic.Int64
		a := g.peer("a", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
			if asked.Add(1) == 1 {
				return knowsNobody(ctx, key)
			}
			return ctx, func() {}, nil
		}}, HTTPConfig{Transport: noDial{t}}, says("a"))
		g.claim("a", 0)
		a.shows(t, "a")
		body := strings.Repeat("x", size)
		got := do(t, request(t, "POST", a.URL+"/k", strings.NewReader(body)))
		if want := strings.TrimSpace("a got " + body); got.Body != want {
			t.Errorf("body of %d: got %d and %d bytes, want %d", size, got.Status, len(got.Body), len(want))
		}
	}
}

// It keeps saying no: somebody else will be the owner, or nobody.
func TestTurnsBackHomeOnce(t *testing.T) {
	g := newGroup(t, 1)
	var asked atomic.Int64
	a := g.peer("a", &fakeNode{wait: 50 * time.Millisecond, enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		asked.Add(1)
		return knowsNobody(ctx, key)
	}}, HTTPConfig{Transport: noDial{t}}, never(t, "a"))
	g.claim("a", 0)
	a.shows(t, "a")
	if got := do(t, request(t, "GET", a.URL+"/k", nil)); got.Status != 503 || asked.Load() != 2 {
		t.Errorf("got %d after asking %d times, want 503 after 2", got.Status, asked.Load())
	}
}
