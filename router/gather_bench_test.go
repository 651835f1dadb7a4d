package router_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// BenchmarkGather is a question to all owners, two nodes of which one is asked, with parts that answer one number: what asking
// costs by itself, for few shards and for many.
func BenchmarkGather(b *testing.B) {
	for _, shards := range []int{64, 1024, 8192} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			g := shard.Group{Name: "accounts", Shards: shards}
			c := ownertest.Start(b, 2, g, ready, owner.Config{})
			address := make(map[string]string)
			muxes := []*http.ServeMux{http.NewServeMux(), http.NewServeMux()}
			var url string
			for i, n := range c.Nodes {
				url = benchServer(b, muxes[i]).URL
				address[n.Status().Self.ID] = strings.TrimPrefix(url, "http://")
			}
			for i, n := range c.Nodes {
				table, err := router.Open(b.Context(), c.Store, g, nil)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { table.Close() })
				web, err := router.NewHTTP(table, n, router.HTTPConfig{
					Transport: benchTransport(b),
					Target:    func(m shard.Member) string { return address[m.ID] },
				})
				if err != nil {
					b.Fatal(err)
				}
				muxes[i].Handle("GET /total", router.Gather(web, router.GatherConfig{},
					func(_ *http.Request, ts []*owner.Tenure) (int, error) { return len(ts), nil },
					func(w http.ResponseWriter, _ *http.Request, all *router.Gathered[int]) {
						if len(all.Missing) > 0 {
							w.WriteHeader(http.StatusServiceUnavailable)
						}
					}))
			}
			r := httptest.NewRequestWithContext(b.Context(), "GET", "/total", nil)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				muxes[0].ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatalf("got %d, want all", w.Code)
				}
			}
		})
	}
}
