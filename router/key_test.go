package router_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// The tenant decides the shard, at each node alike: all of its accounts are served in one tenure, that owns the tenant.
func TestTenantIsTheKey(t *testing.T) {
	c := ownertest.Start(t, 2, accounts, ready, owner.Config{})
	address := make(map[string]string)
	var urls []string
	var muxes []*http.ServeMux
	for _, n := range c.Nodes {
		mux := http.NewServeMux()
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		address[n.Status().Self.ID] = strings.TrimPrefix(s.URL, "http://")
		urls, muxes = append(urls, s.URL), append(muxes, mux)
	}
	for i, n := range c.Nodes {
		table, err := router.Open(t.Context(), c.Store, accounts, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { table.Close() })
		tr := router.NewTransport()
		t.Cleanup(tr.CloseIdleConnections)
		web, err := router.NewHTTP(table, n, router.HTTPConfig{Transport: tr, Target: func(m shard.Member) string { return address[m.ID] }})
		if err != nil {
			t.Fatal(err)
		}
		muxes[i].Handle("POST /accounts/{id}", web.Route(router.PathValue("id").Before(":"),
			func(w http.ResponseWriter, r *http.Request, t *owner.Tenure) {
				tenant, _, _ := strings.Cut(r.PathValue("id"), ":")
				fmt.Fprint(w, t.Owns(tenant), " ", t.Token().Shard, " ", t.Token().Epoch)
			}))
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, tenant := range []string{"acme", "globex", "initech"} {
		want := fmt.Sprint("true ", accounts.Of(tenant), " ", c.Tenure(tenant).Token().Epoch)
		for i, url := range urls {
			for account := range 5 {
				res, err := http.Post(fmt.Sprintf("%s/accounts/%s:%d", url, tenant, account), "", nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if string(body) != want {
					t.Errorf("%s:%d through node %d: got %q, want %q", tenant, account, i, body, want)
				}
			}
		}
	}
}

func TestBefore(t *testing.T) {
	for _, c := range []struct{ key, sep, want string }{
		{"acme:42", ":", "acme"},
		{"acme:42:x", ":", "acme"},
		{"acme/eu/42", "/eu/", "acme"},
		{"acme", ":", ""},
		{":42", ":", ""},
		{"acme:", ":", ""},
		{"acme:42", "", ""},
	} {
		key := router.KeyFunc(func(*http.Request) (string, error) { return c.key, nil })
		got, err := key.Before(c.sep)(nil)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q before %q: got %q %v, want %q", c.key, c.sep, got, err, c.want)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	if got, err := router.Header("X-Account").Before(":")(r); err == nil || !strings.Contains(err.Error(), "X-Account") {
		t.Errorf("without a header: got %q %v, want the header's error", got, err)
	}
}
