package router_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
)

// A node whose view is behind the sender's waits until it has seen why the request came to it: one try is enough.
func TestNodeBehindWaits(t *testing.T) {
	server := memkv.NewServer(memkv.Config{})
	quick := server.Client() // the tables'
	defer quick.Close()
	var nodes []*owner.Node
	var clients []*memkv.Client
	var urls []string
	var tables []*router.Table
	run, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, id := range []string{"a", "b"} {
		mux := http.NewServeMux()
		s := httptest.NewServer(mux)
		defer s.Close()
		client := server.Client()
		defer client.Close()
		node, err := owner.New(client, accounts, ready, owner.Config{
			ID: id, Address: strings.TrimPrefix(s.URL, "http://"), TTL: 5 * time.Second, Settle: 50 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		table, err := router.Open(t.Context(), quick, accounts, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		tr := router.NewTransport()
		defer tr.CloseIdleConnections()
		web, err := router.NewHTTP(table, node, router.HTTPConfig{Transport: tr, Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle("POST /accounts/{id}", web.Route(router.PathValue("id"), newBank(t).deposit))
		running.Go(func() {
			if err := node.Run(run); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
		wait(t, id+" joined", func() bool { return node.Ready() == nil })
		nodes, clients, urls = append(nodes, node), append(clients, client), append(urls, s.URL)
		tables = append(tables, table)
	}
	defer func() { stop(); running.Wait() }() // before the stores are closed
	const key = "alice"
	admin := owner.NewAdmin(quick, accounts)
	// As the routers see it: one that is told later than this test would forward to the one before, and has a single try.
	owned := func(id string) func() bool {
		return func() bool {
			return !slices.ContainsFunc(tables, func(table *router.Table) bool {
				m, _ := table.Owner(key)
				return m == nil || m.ID != id
			})
		}
	}
	defer http.DefaultClient.CloseIdleConnections()
	for i, url := range urls { // through a, and through b itself
		if err := admin.Pin(t.Context(), accounts.Of(key), "a"); err != nil {
			t.Fatal(err)
		}
		wait(t, "a owns", owned("a"))
		wait(t, "a serves", func() bool {
			return nodes[0].Do(t.Context(), key, func(context.Context, *owner.Tenure) error { return nil }) == nil
		})
		clients[1].Lag(300 * time.Millisecond)
		if err := admin.Pin(t.Context(), accounts.Of(key), "b"); err != nil {
			t.Fatal(err)
		}
		wait(t, "b owns", owned("b"))
		res, err := http.Post(url+"/accounts/"+key, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("through node %d: got %s, want 200", i, res.Status)
		}
		clients[1].Lag(0)
	}
}
