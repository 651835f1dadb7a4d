package router

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

func TestShardSets(t *testing.T) {
	for _, want := range [][]int{{0}, {7}, {8}, {0, 1, 15, 16, 1000}, {shard.MaxShards - 1}} {
		var of []ShardEpoch
		for _, s := range want {
			of = append(of, ShardEpoch{Shard: s})
		}
		text := encodeShards(of)
		if got, err := decodeShards(text, shard.MaxShards); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: got %v %v back", want, got, err)
		}
		if len(text) > 11<<10 {
			t.Errorf("%v takes %d bytes, want at most 11 KiB", want, len(text))
		}
		if got, err := decodeShards(text, want[len(want)-1]); err == nil {
			t.Errorf("%v: got %v in a group that is too small, want an error", want, got)
		}
	}
	for _, text := range []string{"", "AAAA", "?", "="} {
		if got, err := decodeShards(text, 8); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// Shards come to rest in any order: those that nobody owned, those that one node refused and then another.
func TestGatherAsksInTheOrderOfShards(t *testing.T) {
	of := []ShardEpoch{{Shard: 9}, {Shard: 1}}
	if got, err := decodeShards(encodeShards(of), 16); err != nil || !slices.Equal(got, []int{1, 9}) {
		t.Errorf("%v: got %v %v back", of, got, err)
	}
	g := newGroup(t, 16)
	asked := make(chan []int, 1)
	g.join(shard.Member{ID: "b", Address: strings.TrimPrefix(newServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, err := decodeShards(r.Header.Get("Tenure-Shards"), 16)
		if err != nil {
			t.Error(err)
		}
		asked <- got
	})), "http://")})
	gw := g.gateway(HTTPConfig{})
	g.claim("b", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	gw.shows(t, "b")
	r := request(t, "GET", "/", nil)
	r.RequestURI = "/"
	s := &seeker{
		q: &question{h: gw.http, conf: GatherConfig{MaxPart: 100}, body: &body{}}, r: r, ctx: t.Context(),
		trips: make([]trip, 16), replies: make(chan reply), ready: []int{9, 1},
	}
	for i := range s.trips {
		s.trips[i] = trip{h: gw.http, shard: i}
	}
	s.run()
	if got := <-asked; !slices.Equal(got, []int{1, 9}) {
		t.Errorf("asked for %v, want 1 and 9", got)
	}
	if len(s.found.missing) != 1 || !slices.Equal(s.found.missing[0].Shards, []int{1, 9}) {
		t.Errorf("got %+v missing, want 1 and 9 in order", s.found.missing)
	}
}

// Whatever a node says, each shard that it was asked for comes out once.
func TestReplyAccountsForEachShard(t *testing.T) {
	a := &ask{member: shard.Member{ID: "b"}, target: "b:80", shards: []ShardEpoch{{1, 10}, {2, 10}, {3, 12}}}
	for _, c := range []struct {
		name                  string
		part                  wirePart
		held, refused, failed []int
	}{
		{"all", wirePart{Held: []ShardEpoch{{1, 10}, {2, 10}, {3, 13}}}, []int{1, 2, 3}, nil, nil},
		{"some", wirePart{Held: []ShardEpoch{{1, 10}}, Refused: []wireRefusal{{Shard: 2}}, Busy: "busy"}, []int{1}, []int{2}, []int{3}},
		{"more than asked", wirePart{Held: []ShardEpoch{{1, 10}, {2, 10}, {3, 12}, {4, 9}}, Refused: []wireRefusal{{Shard: 3}, {Shard: 5}}}, []int{1, 2, 3}, nil, nil},
		{"an older tenure", wirePart{Held: []ShardEpoch{{1, 10}, {2, 10}, {3, 11}}}, nil, nil, []int{1, 2, 3}},
		{"failed", wirePart{Held: []ShardEpoch{{1, 10}, {2, 10}}, Refused: []wireRefusal{{Shard: 3}}, Failed: "disk"}, nil, []int{3}, []int{1, 2}},
		{"nothing", wirePart{}, nil, nil, []int{1, 2, 3}},
		{"failed, an older tenure in it", wirePart{Held: []ShardEpoch{{1, 10}, {3, 11}}, Busy: "busy", Failed: "disk"}, nil, nil, []int{1, 2, 3}},
	} {
		re := c.part.reply(a)
		var refused, failed []int
		for _, no := range re.refused {
			refused = append(refused, no.shard)
		}
		for _, m := range re.failed {
			failed = append(failed, m.Shards...)
		}
		slices.Sort(failed)
		if !slices.Equal(shardsOf(re.held), c.held) || !slices.Equal(refused, c.refused) || !slices.Equal(failed, c.failed) {
			t.Errorf("%s: got held %v, refused %v, failed %v; want %v, %v, %v", c.name, re.held, refused, failed, c.held, c.refused, c.failed)
		}
	}
}

// gather is a question at a gateway or a node, whose part must not run.
func gather(t *testing.T, h *HTTP, c GatherConfig) http.Handler {
	return Gather(h, c,
		func(*http.Request, []*owner.Tenure) (int, error) { t.Error("part ran"); return 0, nil },
		func(w http.ResponseWriter, r *http.Request, g *Gathered[int]) { WriteError(w, r, g.Err()) })
}

func gathers(t *testing.T, h *HTTP, c GatherConfig) (url string) {
	return newServer(t, gather(t, h, c))
}

// Who is no peer gets no part, and a peer's question is not passed on.
func TestGatherFromPeers(t *testing.T) {
	g := newGroup(t, 2)
	trusting := g.peer("a", &fakeNode{enter: knowsNobody}, HTTPConfig{}, never(t, "a"))
	careful := g.peer("b", &fakeNode{enter: knowsNobody}, HTTPConfig{Peer: func(*http.Request) bool { return false }}, never(t, "b"))
	gw := g.gateway(HTTPConfig{})
	conf := GatherConfig{Timeout: 100 * time.Millisecond}
	for _, c := range []struct {
		name   string
		h      *HTTP
		header [3]string
		status int
		part   string
	}{
		{"a peer", trusting.http, [3]string{"abc", "g1", "Aw"}, 200, "abc"},
		{"of another group", trusting.http, [3]string{"abc", "g2", "Aw"}, 421, ""},
		{"for shards that there are not", trusting.http, [3]string{"abc", "g1", "BA"}, 421, ""},
		{"for none", trusting.http, [3]string{"abc", "g1", ""}, 421, ""},
		{"at a gateway", gw.http, [3]string{"abc", "g1", "Aw"}, 421, ""},
		{"no peer", careful.http, [3]string{"abc", "g1", "Aw"}, 403, ""},
	} {
		r := request(t, "GET", gathers(t, c.h, conf), nil)
		for i, name := range []string{"Tenure-Hop", "Tenure-Group", "Tenure-Shards"} {
			r.Header.Set(name, c.header[i])
		}
		got := do(t, r)
		if got.Status != c.status || got.Header.Get("Tenure-Part") != c.part {
			t.Errorf("%s: got %d %v, want %d with part %q", c.name, got.Status, got.Header, c.status, c.part)
		}
	}
}

// Nodes that don't believe each other, for want of a certificate say, must not take each other's asks for questions to all: each
// would ask all others, and so on.
func TestGatherIsNotPassedOn(t *testing.T) {
	g := newGroup(t, 2)
	var asked atomic.Int64
	var first string
	for i, id := range []string{"a", "b"} {
		table, _ := g.open()
		n := &fakeNode{id: id, group: g.decl, wait: 50 * time.Millisecond, enter: knowsNobody}
		h, err := newHTTP(table, n, HTTPConfig{Peer: func(*http.Request) bool { return false }, Transport: newTestTransport(t)})
		if err != nil {
			t.Fatal(err)
		}
		part := gather(t, h, GatherConfig{Timeout: 300 * time.Millisecond})
		url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			part.ServeHTTP(w, r)
		}))
		g.join(shard.Member{ID: id, Address: strings.TrimPrefix(url, "http://")})
		g.claim(id, i)
		if i == 0 {
			first = url
		}
		until(t, "table shows "+id, func() bool { return i == 0 || table.board.Owner(1) != nil })
	}
	if got := do(t, request(t, "GET", first, nil)); got.Status != 503 || asked.Load() > 3 {
		t.Errorf("got %d after %d requests, want 503 after the client's and one to the other node", got.Status, asked.Load())
	}
}

// A node that answers something else than a part, or can't be reached.
func TestGatherFromNoNode(t *testing.T) {
	for _, c := range []struct {
		name   string
		addr   string
		answer string
		want   string
		sent   bool
	}{
		{"gone", "127.0.0.1:1", "", "refused", false}, // where nobody listens, and no other test does
		{"no address", "", "", "no address", false},
		{"another route", "", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404", true},
		{"not its words", "", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTenure-Part: made up\r\n\r\n{}", "no part", true},
	} {
		g := newGroup(t, 1)
		if c.answer != "" {
			c.addr = strings.TrimPrefix(newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				conn.Write([]byte(c.answer))
			})), "http://")
		}
		g.join(shard.Member{ID: "b", Address: c.addr})
		gw := g.gateway(HTTPConfig{})
		g.claim("b", 0)
		gw.shows(t, "b")
		q := question{h: gw.http, conf: GatherConfig{Timeout: 300 * time.Millisecond, MaxPart: 100}, body: &body{}}
		r := request(t, "GET", "/", nil)
		r.RequestURI = "/"
		got := q.ask(r)
		if len(got.answers) != 0 || len(got.missing) != 1 {
			t.Fatalf("%s: got %+v, want the shard missing", c.name, got)
		}
		err, ok := errors.AsType[*ForwardError](got.missing[0].Err)
		if !ok || err.Sent != c.sent || err.Owner.ID != "b" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a ForwardError, sent %v, that says %s", c.name, got.missing[0].Err, c.sent, c.want)
		}
	}
}

// A node that ever says that another epoch of its own is the one: enough is enough.
func TestGatherTriesAreBounded(t *testing.T) {
	g := newGroup(t, 1)
	table, _ := g.open()
	var asked atomic.Int64
	var addr string
	liar := &fakeNode{id: "b", group: g.decl, wait: time.Second, enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		return notOwner(shard.Member{ID: "b", Address: addr}, shard.Epoch(1000+asked.Load()))(ctx, key)
	}}
	h, err := newHTTP(table, liar, HTTPConfig{})
	if err != nil {
		t.Fatal(err)
	}
	part := gather(t, h, GatherConfig{})
	addr = strings.TrimPrefix(newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		part.ServeHTTP(w, r)
	})), "http://")
	g.join(shard.Member{ID: "b", Address: addr})
	gw := g.gateway(HTTPConfig{Tries: 3})
	g.claim("b", 0)
	gw.shows(t, "b")
	if got := do(t, request(t, "GET", gathers(t, gw.http, GatherConfig{}), nil)); got.Status != 503 || asked.Load() != 3 {
		t.Errorf("got %d after asking %d times, want 503 after 3", got.Status, asked.Load())
	}
}
