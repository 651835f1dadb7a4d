package main

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// routes are what a node answers. web brings a question for a customer to its owner, and one for all to all.
func (s *shop) routes(web *router.HTTP, leave func()) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /customers/{id}", web.Route(router.PathValue("id"), s.customer))
	mux.Handle("GET /lag", router.Gather(web, router.GatherConfig{}, s.lag, writeLag))
	// A node of yours leaves when it gets SIGTERM, which is not everywhere.
	mux.HandleFunc("POST /leave", func(http.ResponseWriter, *http.Request) { leave() })
	return mux
}

// statement is the answer to a question for a customer.
type statement struct {
	Customer string `json:"customer"`
	Due      int64  `json:"due"` // in cents
	account
	Shard int         `json:"shard"`
	Epoch shard.Epoch `json:"epoch"`
	Node  string      `json:"node"`
}

func (s *shop) customer(w http.ResponseWriter, r *http.Request, t *owner.Tenure) {
	customer := r.PathValue("id")
	a, known, err := s.account(t, customer)
	switch {
	case err != nil:
		router.WriteError(w, r, err)
	case !known:
		http.Error(w, "no record has named this customer yet", http.StatusNotFound)
	default:
		writeJSON(w, statement{customer, a.due(), a, t.Token().Shard, t.Token().Epoch, s.node})
	}
}

// shardLag is how many records of a shard wait.
type shardLag struct {
	Shard    int    `json:"shard"`
	Node     string `json:"node"`
	Orders   int64  `json:"orders"` // -1: not known yet
	Payments int64  `json:"payments"`
	Stopped  string `json:"stopped,omitempty"` // why it stands still
}

// lagAnswer is what GET /lag says.
type lagAnswer struct {
	Lag    int64      `json:"lag"`   // of all shards and both topics
	Known  bool       `json:"known"` // of each
	Shards []shardLag `json:"shards"`
}

// lag is this node's part of the answer.
func (s *shop) lag(_ *http.Request, ts []*owner.Tenure) ([]shardLag, error) {
	waiting, unpaid := s.orders.Lag(), s.payments.Lag()
	stopped := s.orders.Stopped()
	for i, err := range s.payments.Stopped() {
		stopped[i] = err
	}
	lags := make([]shardLag, len(ts))
	for i, t := range ts {
		n := t.Token().Shard
		lags[i] = shardLag{Shard: n, Node: s.node, Orders: of(waiting, n), Payments: of(unpaid, n)}
		if err := stopped[n]; err != nil {
			lags[i].Stopped = err.Error()
		}
	}
	return lags, nil
}

func of(lags map[int]int64, shard int) int64 {
	if n, ok := lags[shard]; ok {
		return n
	}
	return -1
}

func writeLag(w http.ResponseWriter, r *http.Request, g *router.Gathered[[]shardLag]) {
	if err := g.Err(); err != nil { // part of the lag is no answer to "how far behind are we?"
		router.WriteError(w, r, err)
		return
	}
	a := lagAnswer{Known: true}
	for _, p := range g.Parts {
		a.Shards = append(a.Shards, p.Value...)
	}
	slices.SortFunc(a.Shards, func(x, y shardLag) int { return x.Shard - y.Shard })
	for _, l := range a.Shards {
		a.Lag += max(0, l.Orders) + max(0, l.Payments)
		a.Known = a.Known && l.Orders >= 0 && l.Payments >= 0
	}
	writeJSON(w, a)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}
