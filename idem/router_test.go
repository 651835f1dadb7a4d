package idem_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// cluster is two nodes with routers in front, and records on the store that they share.
type cluster struct {
	*ownertest.Cluster
	servers []*httptest.Server
	fn      atomic.Pointer[http.HandlerFunc] // what runs at the owner
}

// startCluster wraps the handler of each node's Route by under, and the Route itself by over.
func startCluster(t *testing.T, under, over func(*idem.Engine) func(http.Handler) http.Handler) *cluster {
	t.Helper()
	ready := func(ctx context.Context, t *owner.Tenure) error {
		t.Ready()
		<-ctx.Done()
		return nil
	}
	group := shard.Group{Name: "orders", Shards: 4}
	cl := &cluster{Cluster: ownertest.Start(t, 2, group, ready, owner.Config{})}
	addresses := make(map[string]string)
	transport := router.NewTransport()
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addresses[addr])
	}
	t.Cleanup(transport.CloseIdleConnections)
	for i, node := range cl.Nodes {
		table, err := router.Open(t.Context(), cl.Store, group, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = table.Close() })
		web, err := router.NewHTTP(table, node, router.HTTPConfig{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		store := cl.Store.Server().Client()
		t.Cleanup(func() { _ = store.Close() })
		e, err := idem.New(idem.OnCAS(store, ""), idem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		inner := under(e)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*cl.fn.Load())(w, r) }))
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}", over(e)(web.Route(router.PathValue("id"), func(w http.ResponseWriter, r *http.Request, _ *owner.Tenure) {
			inner.ServeHTTP(w, r)
		})))
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		cl.servers = append(cl.servers, s)
		addresses[fmt.Sprintf("node-%d:80", i)] = s.Listener.Addr().String()
	}
	return cl
}

func (cl *cluster) post(t *testing.T, node int, key string) (string, *http.Response) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cl.servers[node].URL+"/orders/17", strings.NewReader("tea"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tenant", "a")
	r.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Errorf("post to node %d: %v", node, err)
		return "", &http.Response{Header: http.Header{}}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("post to node %d: %v", node, err)
	}
	return string(b), res
}

func none(*idem.Engine) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler { return h }
}

func middleware(e *idem.Engine) func(http.Handler) http.Handler {
	return idem.HTTP(e, idem.HTTPConfig{Scope: tenant, Token: owner.TokenFrom})
}

// It stands under the router, at the owner, or over it, at the edge; the answer is the same from everywhere, also
// after the shard has moved.
func TestHTTP_UnderAndOverTheRouter(t *testing.T) {
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	for name, start := range map[string]func() *cluster{
		"under": func() *cluster { return startCluster(t, middleware, none) },
		"over":  func() *cluster { return startCluster(t, none, middleware) },
	} {
		cl := start()
		var runs atomic.Int64
		fn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := idem.From(r.Context())
			if atOwner := err == nil; atOwner != (name == "under") {
				t.Errorf("%s: the operation at the owner: got %v", name, err)
			}
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("Location", "/1")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "%s %d", b, runs.Add(1))
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		})
		cl.fn.Store(&fn)
		for i := range 6 {
			if i == 3 {
				cl.Move("17", 1-cl.Owner("17"))
			}
			got, res := cl.post(t, i%2, "k")
			if got != "tea 1" || res.StatusCode != 201 || res.Header.Get("Location") != "/1" || (res.Header.Get(idem.Replayed) == "true") != (i > 0) {
				t.Errorf("%s, %d: got %d %q, %v", name, i, res.StatusCode, got, res.Header)
			}
		}
		if runs.Load() != 1 {
			t.Errorf("%s: the handler ran %d times, want once", name, runs.Load())
		}
	}
}

// The owner is paused inside a request, and replaced. The retry does not wait for it; and when it wakes,
// its answer is the one that counts, and not its own.
func TestHTTP_ZombieUnderTheRouter(t *testing.T) {
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	cl := startCluster(t, middleware, none)
	inside, wake := make(chan struct{}), make(chan struct{})
	var runs atomic.Int64
	fn := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := runs.Add(1)
		if n == 1 {
			close(inside)
			<-wake
		}
		fmt.Fprintf(w, "run %d", n)
	})
	cl.fn.Store(&fn)
	old := cl.Owner("17")
	first := make(chan string, 1)
	go func() {
		got, _ := cl.post(t, old, "k")
		first <- got
	}()
	<-inside
	cl.Lose("17")
	cl.Settle()
	got, res := cl.post(t, cl.Owner("17"), "k")
	if got != "run 2" || res.StatusCode != 200 {
		t.Errorf("the retry: got %d %q, want it run at once", res.StatusCode, got)
	}
	close(wake)
	if got := <-first; got != "run 2" {
		t.Errorf("the zombie answered %q, want the answer that was recorded", got)
	}
}
