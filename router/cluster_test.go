package router_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

var accounts = shard.Group{Name: "accounts", Shards: 16}

// ready is a handler without state.
func ready(ctx context.Context, t *owner.Tenure) error {
	t.Ready()
	<-ctx.Done()
	return nil
}

// bank counts what is applied, by key.
type bank struct {
	t       *testing.T
	waiting chan struct{} // each waitForLoss that runs

	mu      sync.Mutex
	applied map[string]int
}

func newBank(t *testing.T) *bank {
	return &bank{t: t, waiting: make(chan struct{}, 1), applied: make(map[string]int)}
}

func (b *bank) deposit(w http.ResponseWriter, r *http.Request, t *owner.Tenure) {
	key := r.PathValue("id")
	if !t.Owns(key) || t.Token().Shard != accounts.Of(key) {
		b.t.Errorf("%s served in the tenure of %v", key, t.Token())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applied[key]++
	io.WriteString(w, "ok")
}

// front is the bank's server at each node of c.
func (b *bank) front(c *ownertest.Cluster) (urls []string) {
	address := make(map[string]string)
	muxes := make([]*http.ServeMux, len(c.Nodes))
	for i, n := range c.Nodes {
		muxes[i] = http.NewServeMux()
		s := httptest.NewServer(muxes[i])
		b.t.Cleanup(s.Close)
		address[n.Status().Self.ID] = strings.TrimPrefix(s.URL, "http://")
		urls = append(urls, s.URL)
	}
	for i, n := range c.Nodes {
		table, err := router.Open(b.t.Context(), c.Store, accounts, nil)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { table.Close() })
		tr := router.NewTransport()
		b.t.Cleanup(tr.CloseIdleConnections)
		web, err := router.NewHTTP(table, n, router.HTTPConfig{
			Transport: tr,
			Target:    func(m shard.Member) string { return address[m.ID] },
			Logger:    slog.New(slog.NewTextHandler(b.t.Output(), nil)),
		})
		if err != nil {
			b.t.Fatal(err)
		}
		muxes[i].Handle("POST /accounts/{id}", web.Route(router.PathValue("id"), b.deposit))
		muxes[i].Handle("POST /accounts/{id}/wait", web.Route(router.PathValue("id"), b.waitForLoss))
	}
	return urls
}

func (b *bank) waitForLoss(w http.ResponseWriter, r *http.Request, t *owner.Tenure) {
	b.waiting <- struct{}{}
	select {
	case <-r.Context().Done():
		router.WriteError(w, r, context.Cause(r.Context()))
	case <-time.After(30 * time.Second):
		b.t.Error("the request outlived its tenure by far")
	}
}

// load sends deposits through all of its URLs until it is finished, and counts what was acknowledged.
type load struct {
	t     *testing.T
	urls  atomic.Pointer[[]string]
	stop  chan struct{}
	done  sync.WaitGroup
	acked map[string]*atomic.Int64
	sent  atomic.Int64
}

func startLoad(t *testing.T, keys int, urls []string) *load {
	l := &load{t: t, stop: make(chan struct{}), acked: make(map[string]*atomic.Int64)}
	l.through(urls)
	for i := range keys {
		l.acked[fmt.Sprintf("account-%d", i)] = new(atomic.Int64)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr}
	for key := range l.acked {
		l.done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				urls := *l.urls.Load()
				l.post(c, urls[n%len(urls)], key)
			}
		})
	}
	return l
}

// through has requests go through urls from now on, as a load balancer would.
func (l *load) through(urls []string) { l.urls.Store(&urls) }

func (l *load) post(c *http.Client, url, key string) {
	l.sent.Add(1)
	res, err := c.Post(url+"/accounts/"+key, "", nil)
	if err != nil {
		l.t.Errorf("%s through %s: %v", key, url, err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != 200 || err != nil {
		l.t.Errorf("%s through %s: got %s %q %v", key, url, res.Status, body, err)
		return
	}
	l.acked[key].Add(1)
}

// finish checks that each acknowledged deposit was applied exactly once.
func (l *load) finish(b *bank) {
	l.t.Helper()
	close(l.stop)
	l.done.Wait()
	for key, n := range l.acked {
		if got := int64(b.applied[key]); got != n.Load() || got == 0 {
			l.t.Errorf("%s: applied %d times, acknowledged %d; want the same, and more than none", key, got, n.Load())
		}
	}
}

// a moment's worth of further requests
func (l *load) more(n int64) {
	l.t.Helper()
	goal := l.sent.Load() + n
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for l.sent.Load() < goal {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited 20s in vain for %d more requests", n)
		}
		<-tick.C
	}
}

func TestI10_MovesFailNoRequest(t *testing.T) {
	c := ownertest.Start(t, 3, accounts, ready, owner.Config{})
	b := newBank(t)
	l := startLoad(t, 8, b.front(c))
	l.more(100)
	for i := range 12 {
		key := fmt.Sprintf("account-%d", i%8)
		c.Move(key, (c.Owner(key)+1)%3)
		l.more(20)
	}
	l.finish(b)
}

func TestLossEndsRequest(t *testing.T) {
	c := ownertest.Start(t, 2, accounts, ready, owner.Config{})
	b := newBank(t)
	urls := b.front(c)
	held := c.Tenure("alice")
	through := urls[(c.Owner("alice")+1)%2] // the other
	answers := make(chan *http.Response, 1)
	go func() {
		res, err := http.Post(through+"/accounts/alice/wait", "", nil)
		if err != nil {
			t.Error(err)
		}
		answers <- res
	}()
	<-b.waiting
	c.Lose("alice")
	res := <-answers
	if res == nil {
		return
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != 500 || res.Header.Get("Tenure-Outcome") != "uncertain" {
		t.Errorf("got %s %v, want 500, uncertain", res.Status, res.Header)
	}
	if _, ok := errors.AsType[*owner.LostError](held.Err()); !ok {
		t.Errorf("tenure: got %v, want LostError", held.Err())
	}
}

// process is one of several that Serve.
type process struct {
	url  string
	stop context.CancelFunc
	done chan error
}

func (b *bank) start(server *memkv.Server, id string, min int) *process {
	t := b.t
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // Serve listens there again
	store := server.Client()
	node, err := owner.New(store, accounts, ready, owner.Config{
		ID: id, Address: addr, TTL: 2 * time.Second, Settle: 50 * time.Millisecond, MinMembers: min,
	})
	if err != nil {
		t.Fatal(err)
	}
	table, err := router.Open(t.Context(), store, accounts, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := router.NewTransport()
	web, err := router.NewHTTP(table, node, router.HTTPConfig{Transport: tr, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /readyz", router.Readyz(node))
	mux.Handle("GET /livez", router.Livez(node))
	mux.Handle("POST /accounts/{id}", web.Route(router.PathValue("id"), b.deposit))
	ctx, stop := context.WithCancel(context.Background())
	p := &process{url: "http://" + addr, stop: stop, done: make(chan error, 1)}
	go func() {
		p.done <- router.Serve(ctx, node, router.ServeConfig{Linger: 3 * time.Second}, router.On(addr, &http.Server{Handler: mux}))
		table.Close()
		tr.CloseIdleConnections()
		store.Close()
		close(p.done)
	}()
	t.Cleanup(func() {
		for err := range p.done {
			if err != nil {
				t.Errorf("%s: Serve: %v", id, err)
			}
		}
	})
	return p
}

func (p *process) get(path string) int {
	res, err := http.Get(p.url + path)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

func TestI10_LeaveFailsNoRequest(t *testing.T) {
	server := memkv.NewServer(memkv.Config{})
	b := newBank(t)
	var all []*process
	var urls []string
	for i := range 3 {
		p := b.start(server, fmt.Sprintf("n%d", i), 3)
		all = append(all, p)
		urls = append(urls, p.url)
	}
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		for _, p := range all {
			p.stop()
		}
	}()
	for _, p := range all {
		wait(t, "ready", func() bool { return p.get("/readyz") == 200 })
	}
	if got := all[0].get("/livez"); got != 200 {
		t.Errorf("livez: got %d, want 200", got)
	}
	l := startLoad(t, 8, urls)
	l.more(200)
	all[0].stop() // the load goes on through it, as a load balancer's would
	wait(t, "not ready", func() bool { return all[0].get("/readyz") == 503 })
	l.more(50)
	l.through(urls[1:])
	l.more(200)
	l.finish(b)
	if err := <-all[0].done; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20s in vain for: %s", what)
		}
		<-tick.C
	}
}
