package router

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// fakeNode is a node whose gate is the test's. A nil enter owns everything.
type fakeNode struct {
	id    string
	group shard.Group
	wait  time.Duration
	enter func(ctx context.Context, key string) (context.Context, func(), error)
}

func (n *fakeNode) Enter(ctx context.Context, key string) (context.Context, func(), error) {
	if n.enter == nil {
		return ctx, func() {}, nil
	}
	return n.enter(ctx, key)
}

func (n *fakeNode) EnterShard(ctx context.Context, s int) (context.Context, func(), error) {
	return n.Enter(ctx, strconv.Itoa(s))
}
func (n *fakeNode) Group() shard.Group         { return n.group }
func (n *fakeNode) WaitTimeout() time.Duration { return n.wait }
func (n *fakeNode) Status() owner.Status {
	return owner.Status{Self: shard.Member{ID: n.id, Address: n.id + ":80"}}
}

// notOwner refuses everything, and names who it is to be.
func notOwner(who shard.Member, e shard.Epoch) func(context.Context, string) (context.Context, func(), error) {
	return func(ctx context.Context, key string) (context.Context, func(), error) {
		return ctx, func() {}, &owner.NotOwnerError{Owner: who, Epoch: e}
	}
}

// knowsNobody refuses and can't say who owns the shard.
var knowsNobody = notOwner(shard.Member{}, 0)

// peer is a node's server. All routes are "/{key}" and below.
type peer struct {
	shard.Member
	*httptest.Server
	http *HTTP
}

// peerOf starts a node that has joined g. It is no owner of anything yet.
func (g *group) peer(id string, n *fakeNode, c HTTPConfig, next http.HandlerFunc) *peer {
	g.t.Helper()
	table, _ := g.open()
	n.id, n.group = id, g.decl
	if n.wait == 0 {
		n.wait = 5 * time.Second
	}
	return g.serve(id, table, n, c, next)
}

// gateway starts a process that owns nothing.
func (g *group) gateway(c HTTPConfig) *peer {
	g.t.Helper()
	table, _ := g.open()
	return g.serve("", table, nil, c, func(http.ResponseWriter, *http.Request) { g.t.Error("gateway ran the handler") })
}

func (g *group) serve(id string, table *Table, n node, c HTTPConfig, next http.HandlerFunc) *peer {
	g.t.Helper()
	if c.Transport == nil {
		c.Transport = newTestTransport(g.t)
	}
	web, err := newHTTP(table, n, c)
	if err != nil {
		g.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/{key}", web.Handler(PathValue("key"), next))
	mux.Handle("/{key}/{rest...}", web.Handler(PathValue("key"), next))
	p := &peer{Server: httptest.NewServer(mux), http: web}
	g.t.Cleanup(p.Close)
	p.Member = shard.Member{ID: id, Address: strings.TrimPrefix(p.URL, "http://")}
	if id != "" {
		g.join(p.Member)
	}
	return p
}

func newTestTransport(t testing.TB) *http.Transport {
	tr := NewTransport()
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// shows waits until p's table shows who as the owner of all shards.
func (p *peer) shows(t testing.TB, who string) {
	t.Helper()
	until(t, "table shows "+who, func() bool {
		for _, id := range owners(p.http.table) {
			if id != who {
				return false
			}
		}
		return true
	})
}

// until waits for a condition that other goroutines bring about.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10s in vain until %s", what)
		}
		<-tick.C
	}
}

// client talks to servers under test: it follows nothing and replays nothing.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{ExpectContinueTimeout: time.Minute, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}
