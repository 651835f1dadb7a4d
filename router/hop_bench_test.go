package router_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

const deposit = `{"account":"alice","amount":25}`

// apply is the handler of all that are compared: it reads the order and says how large it was.
func apply(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil || n != int64(len(deposit)) {
		http.Error(w, "want the whole order", http.StatusBadRequest)
		return
	}
	io.WriteString(w, "applied")
}

// benchServer serves h on loopback.
func benchServer(b *testing.B, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	return s
}

// benchTransport is what all hops go by, each on connections of its own.
func benchTransport(b *testing.B) *http.Transport {
	tr := router.NewTransport()
	b.Cleanup(tr.CloseIdleConnections)
	return tr
}

// poster sends orders to a URL over connections that it keeps.
func poster(b *testing.B, to string) func() {
	c := &http.Client{Transport: benchTransport(b)}
	return func() {
		res, err := c.Post(to, "application/json", strings.NewReader(deposit))
		if err != nil {
			b.Error(err)
			return
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || err != nil {
			b.Errorf("%s: got %s %v, want 200", to, res.Status, err)
		}
	}
}

// nodes are two nodes' routers in front of apply, both serving, and the one of them that owns key.
type nodes struct {
	cluster *ownertest.Cluster
	urls    []string
	owner   int
}

const benchKey = "alice"

func startNodes(b *testing.B) *nodes {
	c := ownertest.Start(b, 2, accounts, ready, owner.Config{TTL: 10 * time.Second})
	n := &nodes{cluster: c, owner: c.Owner(benchKey)}
	address := make(map[string]string)
	muxes := make([]*http.ServeMux, len(c.Nodes))
	for i, node := range c.Nodes {
		muxes[i] = http.NewServeMux()
		s := benchServer(b, muxes[i])
		address[node.Status().Self.ID] = strings.TrimPrefix(s.URL, "http://")
		n.urls = append(n.urls, s.URL+"/accounts/"+benchKey+"/deposits")
	}
	for i, node := range c.Nodes {
		table, err := router.Open(b.Context(), c.Store, accounts, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { table.Close() })
		web, err := router.NewHTTP(table, node, router.HTTPConfig{
			Transport: benchTransport(b),
			Target:    func(m shard.Member) string { return address[m.ID] },
		})
		if err != nil {
			b.Fatal(err)
		}
		muxes[i].Handle("POST /accounts/{id}/deposits", web.Route(router.PathValue("id"),
			func(w http.ResponseWriter, r *http.Request, _ *owner.Tenure) { apply(w, r) }))
	}
	return n
}

// compare runs rounds of mine and theirs in turn, so that whatever else the machine does hits both, and reports the median of
// the rounds' ratios in time, and the ratio in processor time of all rounds together. In a round clients send a few requests each.
func compare(b *testing.B, clients int, mine, theirs func()) {
	const each = 5
	round := func(post func()) (passed, used time.Duration) {
		began, cpu := time.Now(), cpuTime()
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range each {
					post()
				}
			})
		}
		all.Wait()
		return time.Since(began), cpuTime() - cpu
	}
	for range 50 { // connections, buffers
		round(mine)
		round(theirs)
	}
	var ratios []float64
	var passed, used [2]time.Duration // mine, theirs
	posts := [2]func(){mine, theirs}
	for i := 0; b.Loop(); i++ {
		var took [2]time.Duration
		for _, who := range [2]int{i % 2, 1 - i%2} {
			p, u := round(posts[who])
			took[who] = p
			passed[who] += p
			used[who] += u
		}
		ratios = append(ratios, float64(took[0])/float64(took[1]))
	}
	slices.Sort(ratios)
	per := func(d time.Duration) float64 { return float64(d) / float64(len(ratios)*each*clients) / 1e3 }
	b.ReportMetric(0, "ns/op") // a round of both says nothing
	b.ReportMetric(per(passed[0]), "µs/request")
	b.ReportMetric(per(passed[1]), "µs/rival")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	if used[1] > 0 {
		b.ReportMetric(float64(used[0])/float64(used[1]), "cpu-ratio")
		b.ReportMetric(per(used[1]), "cpu-µs/rival")
	}
}

// BenchmarkForward is a request through a node that does not own its key, beside the same through a reverse proxy in front of
// the bare handler, over the same kind of connections: a plain one, and one with a pool of buffers as the router has.
func BenchmarkForward(b *testing.B) {
	n := startNodes(b)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{id}/deposits", apply)
	bare, err := url.Parse(benchServer(b, mux).URL)
	if err != nil {
		b.Fatal(err)
	}
	mine := poster(b, n.urls[1-n.owner])
	for _, rival := range []struct {
		name string
		pool httputil.BufferPool
	}{{"plain", nil}, {"pooled", new(benchBuffers)}} {
		proxies := http.NewServeMux()
		proxies.Handle("POST /accounts/{id}/deposits", &httputil.ReverseProxy{
			Rewrite:    func(p *httputil.ProxyRequest) { p.SetURL(bare); p.SetXForwarded() },
			Transport:  benchTransport(b),
			BufferPool: rival.pool,
		})
		theirs := poster(b, benchServer(b, proxies).URL+"/accounts/"+benchKey+"/deposits")
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprintf("rival=%s/clients=%d", rival.name, clients), func(b *testing.B) { compare(b, clients, mine, theirs) })
		}
	}
}

// benchBuffers is what a proxy that was tuned would copy with.
type benchBuffers struct{ pool sync.Pool }

func (p *benchBuffers) Get() []byte {
	if b, ok := p.pool.Get().(*[32 << 10]byte); ok {
		return b[:]
	}
	return make([]byte, 32<<10)
}

func (p *benchBuffers) Put(b []byte) { p.pool.Put((*[32 << 10]byte)(b)) }

// BenchmarkLocal is a request to the node that owns its key, beside the same to the bare handler.
func BenchmarkLocal(b *testing.B) {
	n := startNodes(b)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{id}/deposits", apply)
	bare := benchServer(b, mux)
	mine := poster(b, n.urls[n.owner])
	theirs := poster(b, bare.URL+"/accounts/"+benchKey+"/deposits")
	b.Run("clients=1", func(b *testing.B) { compare(b, 1, mine, theirs) })
	b.Run("clients=16", func(b *testing.B) { compare(b, 16, mine, theirs) })
}

// BenchmarkRoute is what the router adds to a request that has come to the owner of its key, without a network: beside the
// gate alone, and the handler with neither.
func BenchmarkRoute(b *testing.B) {
	c := ownertest.Start(b, 1, accounts, ready, owner.Config{TTL: 10 * time.Second})
	table, err := router.Open(b.Context(), c.Store, accounts, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { table.Close() })
	web, err := router.NewHTTP(table, c.Nodes[0], router.HTTPConfig{})
	if err != nil {
		b.Fatal(err)
	}
	key := func(*http.Request) (string, error) { return benchKey, nil }
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	gate := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, exit, err := c.Nodes[0].Enter(r.Context(), benchKey)
		if err != nil {
			b.Fatal(err)
		}
		handler(w, r.WithContext(ctx))
		exit()
	})
	for _, kind := range []struct {
		name string
		http.Handler
	}{{"router", web.Handler(key, handler)}, {"gate", gate}, {"bare", handler}} {
		b.Run(kind.name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), "POST", "/accounts/alice/deposits", nil)
			r.Header = http.Header{
				"Content-Type": {"application/json"}, "User-Agent": {"bench"}, "Accept-Encoding": {"gzip"}, "Content-Length": {"31"},
			}
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				kind.ServeHTTP(w, r)
			}
		})
	}
}
