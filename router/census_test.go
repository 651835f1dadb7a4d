package router_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// census asks every shard who it is.
type census struct {
	t    *testing.T
	c    *ownertest.Cluster
	urls []string // of the nodes, then of a gateway
	asks atomic.Int64
	conf router.GatherConfig

	how atomic.Pointer[partFunc] // nil: all of ts
}

type partFunc func(r *http.Request, node int, ts []*owner.Tenure) ([]int, error)

// counted is what merge says of a census.
type counted struct {
	Parts []router.Part[[]int]
	Gone  [][]int // missing shards, by cause
	Why   []string
	Code  string // of Err
}

func newCensus(t *testing.T, c *ownertest.Cluster, conf router.GatherConfig) *census {
	s := &census{t: t, c: c, conf: conf}
	address := make(map[string]string)
	muxes := make([]*http.ServeMux, len(c.Nodes)+1)
	for i := range muxes {
		muxes[i] = http.NewServeMux()
		server := httptest.NewServer(muxes[i])
		t.Cleanup(server.Close)
		s.urls = append(s.urls, server.URL)
		if i < len(c.Nodes) {
			address[c.Nodes[i].Status().Self.ID] = strings.TrimPrefix(server.URL, "http://")
		}
	}
	for i, mux := range muxes {
		table, err := router.Open(t.Context(), c.Store, accounts, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { table.Close() })
		tr := router.NewTransport()
		t.Cleanup(tr.CloseIdleConnections)
		var node *owner.Node
		if i < len(c.Nodes) {
			node = c.Nodes[i]
		}
		web, err := router.NewHTTP(table, node, router.HTTPConfig{
			Transport: tr,
			Target:    func(m shard.Member) string { return address[m.ID] },
			Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
			Replay:    1000,
		})
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle("/census", router.Gather(web, conf, s.answer(i), s.merge))
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s
}

func (s *census) answer(node int) func(*http.Request, []*owner.Tenure) ([]int, error) {
	return func(r *http.Request, ts []*owner.Tenure) ([]int, error) {
		s.asks.Add(1)
		if how := s.how.Load(); how != nil {
			return (*how)(r, node, ts)
		}
		return shards(ts), nil
	}
}

func (s *census) part(how partFunc) { s.how.Store(&how) }

func shards(ts []*owner.Tenure) (all []int) {
	for _, t := range ts {
		all = append(all, t.Token().Shard)
	}
	return all
}

func (s *census) merge(w http.ResponseWriter, _ *http.Request, g *router.Gathered[[]int]) {
	c := counted{Parts: g.Parts}
	for _, m := range g.Missing {
		c.Gone, c.Why = append(c.Gone, m.Shards), append(c.Why, m.Err.Error())
	}
	if err := g.Err(); err != nil {
		w := httptest.NewRecorder()
		router.WriteError(w, nil, err)
		c.Code = fmt.Sprint(w.Code)
		if cas.OutcomeOf(err) != cas.NotApplied {
			s.t.Errorf("outcome of %v: want not applied", err)
		}
	}
	json.NewEncoder(w).Encode(c)
}

// ask asks through url, and checks that each shard is accounted for once.
func (s *census) ask(url string) counted {
	s.t.Helper()
	res, err := http.Get(url + "/census?min=100")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var c counted
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil {
		s.t.Fatalf("%s: %v", res.Status, err)
	}
	seen := make(map[int]int)
	for _, p := range c.Parts {
		var held []int
		for _, h := range p.Shards {
			seen[h.Shard]++
			held = append(held, h.Shard)
			if h.Epoch == 0 {
				s.t.Errorf("shard %d answered under no epoch", h.Shard)
			}
		}
		if !slices.Equal(held, p.Value) {
			s.t.Errorf("%s is said to have answered for %v, and it did for %v", p.Member, held, p.Value)
		}
	}
	for _, gone := range c.Gone {
		for _, i := range gone {
			seen[i]++
		}
	}
	for i := range accounts.Shards {
		if seen[i] != 1 {
			s.t.Errorf("shard %d is accounted for %d times, want once: %+v", i, seen[i], c)
		}
	}
	return c
}

// of are the shards of a node.
func (s *census) of(node int) (all []int) {
	for _, ev := range s.c.Nodes[node].Status().Shards {
		all = append(all, ev.Token.Shard)
	}
	return all
}
