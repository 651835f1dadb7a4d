package router

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// The hop ends with the client also once the answer streams.
func TestClientGoneEndsStream(t *testing.T) {
	ended := make(chan struct{})
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		io.WriteString(w, "data: 0\n\n")
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
			t.Error("still running 10s after the client has gone")
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	res, err := client(t).Do(request(t, "GET", gw.URL+"/k", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
}

// Nobody waits for an owner on behalf of a client that has gone.
func TestClientGoneEndsWait(t *testing.T) {
	failed := make(chan error, 1)
	g := newGroup(t, 1)
	waits := make(chan struct{})
	a := g.peer("a", &fakeNode{wait: time.Hour, enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		close(waits)
		return knowsNobody(ctx, key)
	}}, HTTPConfig{
		Transport: impatientTransport(t),
		Error:     func(_ http.ResponseWriter, _ *http.Request, err error) { failed <- err },
	}, never(t, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waits; cancel() }()
	if res, err := client(t).Do(request(t, "POST", a.URL+"/k", nil).WithContext(ctx)); err == nil {
		res.Body.Close()
		t.Errorf("got %s, want an error", res.Status)
	}
	select {
	case err := <-failed:
		if f, ok := errors.AsType[*ForwardError](err); !ok || f.Sent || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want a ForwardError of a request that was not sent", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("still waiting 10s after the client has gone")
	}
}

// impatientTransport suits a WaitTimeout of an hour.
func impatientTransport(t *testing.T) *http.Transport {
	tr := newTestTransport(t)
	tr.ExpectContinueTimeout = 2 * time.Hour
	return tr
}
