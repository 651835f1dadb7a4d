package router_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

func ExampleGather() {
	var web *router.HTTP // from router.NewHTTP
	var balances interface {
		above(least string, ts []*owner.Tenure) (map[string]int, error)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /accounts", router.Gather(web, router.GatherConfig{},
		func(r *http.Request, ts []*owner.Tenure) (map[string]int, error) {
			return balances.above(r.FormValue("min"), ts)
		},
		func(w http.ResponseWriter, _ *http.Request, g *router.Gathered[map[string]int]) {
			var out bytes.Buffer
			for _, p := range g.Parts {
				for account, balance := range p.Value {
					fmt.Fprintln(&out, account, balance)
				}
			}
			for _, m := range g.Missing { // or router.WriteError(w, r, g.Err()), all or nothing
				fmt.Fprintln(&out, "without shards", m.Shards)
			}
			w.Write(out.Bytes())
		}))
}

// Nodes and clients have certificates of the same authority; nodes' are for a name that no client has.
func ExamplePeerByCert() {
	const name = "node.accounts.internal"
	var (
		cert  tls.Certificate // of this node, for name
		roots *x509.CertPool
		table *router.Table
		node  *owner.Node
	)
	between := router.NewTransport()
	between.TLSClientConfig = &tls.Config{
		Certificates: []tls.Certificate{cert},
		RootCAs:      roots,
		ServerName:   name, // addresses of pods are in no certificate
	}
	web, err := router.NewHTTP(table, node, router.HTTPConfig{
		Transport: between,
		Scheme:    "https",
		Peer:      router.PeerByCert(func(c *x509.Certificate) bool { return c.VerifyHostname(name) == nil }),
	})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientCAs:    roots,
		ClientAuth:   tls.VerifyClientCertIfGiven, // clients need have none
	}}
	server.Handler = web.Route(router.PathValue("id"), func(http.ResponseWriter, *http.Request, *owner.Tenure) {})
}

// All accounts of a tenant have one owner, since the tenant is the key.
func ExampleKeyFunc_Before() {
	group := shard.Group{Name: "accounts", Shards: 64}
	tenant := router.PathValue("id").Before(":") // of "acme:42"
	mux := http.NewServeMux()
	mux.HandleFunc("/accounts/{id}", func(w http.ResponseWriter, r *http.Request) {
		key, err := tenant(r)
		fmt.Println(r.PathValue("id"), "is of", key, err, group.Of(key) == group.Of("acme"))
	})
	for _, id := range []string{"acme:1", "acme:2", "acme"} {
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/accounts/"+id, nil))
	}
	// Output:
	// acme:1 is of acme <nil> true
	// acme:2 is of acme <nil> true
	// acme is of  the key has two parts: want ":" between them, and both there false
}
