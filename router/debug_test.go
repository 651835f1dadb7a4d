package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// fakeDebugged is a node in some state.
type fakeDebugged struct {
	status owner.Status
	ready  error
}

func (n *fakeDebugged) Status() owner.Status { return n.status }
func (n *fakeDebugged) Ready() error         { return n.ready }
func (n *fakeDebugged) Live() error          { return nil }

func debugAnswer(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestDebugJSON(t *testing.T) {
	g := newGroup(t, 4)
	g.join(shard.Member{ID: "a", Address: "a:80", Zone: "z1", Version: "v2"})
	g.join(shard.Member{ID: "b", Address: "b:80", Draining: true})
	g.join(shard.Member{ID: "idle", Address: "idle:80"})
	epoch := g.claim("b", 0, 2)
	table, _ := g.open()
	table.heard.Add(int64(time.Second)) // in the future, so that the age is 0 for now
	n := &fakeDebugged{
		ready: errors.New("owner: node is leaving"),
		status: owner.Status{
			Self: shard.Member{ID: "b", Address: "b:80", Weight: 1}, Trust: 7500 * time.Millisecond, Planner: "a", Rev: 12, Waiting: 3,
			Shards: []owner.Event{
				{Token: shard.Token{Shard: 0, Epoch: epoch}, State: owner.Ready, For: time.Minute, Age: 61 * time.Second, Err: errors.New("secret")},
				{Token: shard.Token{Shard: 2, Epoch: epoch}, State: owner.Draining, For: time.Second, Age: time.Hour},
			},
			Counters: owner.Counters{
				Waits: 1, Waited: 2 * time.Second, Busy: 3, Renewals: 4, RenewalFailures: 5, Granted: 6, HandedOff: 7, Forced: 8,
				Lost: 9, Failed: 10, Held: 11 * time.Second, Fenced: 12,
			},
		},
	}
	var got map[string]any
	w := debugAnswer(debugPage(n, table), "/debug?format=json")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	type o = map[string]any
	e := epoch.String()
	want := o{
		"group": o{"name": "accounts", "id": "g1", "shards": 4.0, "hash": "xxh64"},
		"node": o{
			"id": "b", "address": "b:80", "weight": 1.0, "shards": 2.0, "ready": "owner: node is leaving", "live": "yes",
			"trust_ms": 7500.0, "planner": "a", "revision": 12.0, "waiting": 3.0,
			"counters": o{
				"waits": 1.0, "waited_ms": 2000.0, "busy": 3.0, "renewals": 4.0, "renewal_failures": 5.0, "granted": 6.0,
				"handed_off": 7.0, "forced": 8.0, "lost": 9.0, "failed": 10.0, "held_ms": 11000.0, "fenced": 12.0,
			},
		},
		"table": o{"age_ms": 0.0, "revision": float64(table.board.Rev()), "owned": 2.0, "unowned": 2.0},
		"members": []any{
			o{"id": "a", "address": "a:80", "zone": "z1", "version": "v2", "weight": 1.0, "shards": 0.0, "plans": true},
			o{"id": "b", "address": "b:80", "weight": 1.0, "draining": true, "shards": 2.0},
			o{"id": "idle", "address": "idle:80", "weight": 1.0, "shards": 0.0},
		},
		"here": []any{
			o{"shard": 0.0, "epoch": e, "state": "ready", "for_ms": 60000.0, "age_ms": 61000.0},
			o{"shard": 2.0, "epoch": e, "state": "draining", "for_ms": 1000.0, "age_ms": 3600000.0},
		},
		"owners": []any{
			o{"shard": 0.0, "member": "b", "epoch": e}, o{"shard": 1.0}, o{"shard": 2.0, "member": "b", "epoch": e}, o{"shard": 3.0},
		},
		"page": o{"from": 0.0, "to": 4.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	text := debugAnswer(debugPage(n, table), "/debug").Body.String()
	for _, want := range []string{"leaving", "7.5s", "draining", e, "1m1s", "nobody", "1 3", "id g1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, never := range []string{"secret", "<script", "no value"} {
		if strings.Contains(text, never) || strings.Contains(w.Body.String(), never) {
			t.Errorf("the page says %q", never)
		}
	}
}

func TestDebugFormats(t *testing.T) {
	h := debugPage(&fakeDebugged{}, nil)
	for _, c := range []struct {
		target, accept string
		want           string
		status         int
	}{
		{"/debug", "", "text/html; charset=utf-8", 200},
		{"/debug", "text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8", 200},
		{"/debug", "application/json", "application/json", 200},
		{"/debug", "text/html, application/json;q=0.5", "text/html; charset=utf-8", 200},
		{"/debug.json", "text/html", "application/json", 200},
		{"/debug?format=json", "text/html", "application/json", 200},
		{"/debug?format=html", "application/json", "text/html; charset=utf-8", 200},
		{"/debug?format=xml", "", "text/plain; charset=utf-8", 400},
		{"/debug?from=x", "", "text/plain; charset=utf-8", 400},
		{"/debug?from=-1", "", "text/plain; charset=utf-8", 400},
	} {
		w := debugAnswer(h, c.target, "Accept", c.accept)
		if got := w.Header().Get("Content-Type"); w.Code != c.status || got != c.want {
			t.Errorf("%s for %q: got %d %s, want %d %s", c.target, c.accept, w.Code, got, c.status, c.want)
		}
		if got := w.Header().Get("Cache-Control"); c.status == 200 && got != "no-store" {
			t.Errorf("%s: Cache-Control: got %q, want no-store", c.target, got)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/debug", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %d %v, want 405", w.Code, w.Header())
	}
}

// What members say of themselves is text, and nothing of it runs.
func TestDebugEscapes(t *testing.T) {
	g := newGroup(t, 1)
	evil := `<img src=x onerror="alert(1)">`
	g.join(shard.Member{ID: "a", Address: evil, Zone: evil, Version: evil})
	g.claim("a", 0)
	table, _ := g.open()
	n := &fakeDebugged{status: owner.Status{Self: shard.Member{ID: evil, Version: evil}, Planner: evil}}
	w := debugAnswer(debugPage(n, table), "/debug")
	if body := w.Body.String(); strings.Contains(body, "<img") || !strings.Contains(body, "&lt;img") {
		t.Errorf("got it unescaped:\n%s", body)
	}
	if got := w.Header().Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") {
		t.Errorf("Content-Security-Policy: got %q, want nothing allowed", got)
	}
}

// The largest group is shown in pages that a browser and a person can take.
func TestDebugPages(t *testing.T) {
	g := newGroup(t, shard.MaxShards)
	for m := range 3 {
		id := fmt.Sprintf("n%d", m)
		g.join(shard.Member{ID: id})
		var mine []int
		for s := m; s < shard.MaxShards; s += 3 { // no two in a row
			mine = append(mine, s)
		}
		g.claim(id, mine...)
	}
	table, _ := g.open()
	h := debugPage(nil, table)
	seen := 0
	for next := 0; ; {
		target := fmt.Sprintf("/debug?from=%d", next)
		if n := debugAnswer(h, target).Body.Len(); n > 64<<10 {
			t.Errorf("%s: a page of %d bytes, want at most 64 KiB", target, n)
		}
		var got report
		if err := json.Unmarshal(debugAnswer(h, target+"&format=json").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, o := range got.Owners {
			if o.Shard != seen || o.Member != fmt.Sprintf("n%d", o.Shard%3) {
				t.Fatalf("%s: got %+v, want shard %d", target, o, seen)
			}
			seen++
		}
		if got.Table.Owned != shard.MaxShards || got.Members[1].Shards != shard.MaxShards/3 {
			t.Fatalf("%s: got %+v, %+v: want the counts of all shards", target, got.Table, got.Members)
		}
		if got.Page.Next == nil {
			break
		}
		next = *got.Page.Next
	}
	if seen != shard.MaxShards {
		t.Errorf("got %d shards in all, want %d", seen, shard.MaxShards)
	}
	for target, want := range map[string]string{
		"/debug?from=1000":  `<a href="?from=0">previous</a><a href="?from=2000">next</a>`,
		"/debug?from=1999":  `Shards 1000 to 1999`,
		"/debug?from=70000": `Shards 65000 to 65535`,
	} {
		if got := debugAnswer(h, target).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: want it to have %s", target, want)
		}
	}
}

func TestDebugOfNothing(t *testing.T) {
	for _, h := range []http.Handler{Debug(nil, nil), debugPage(&fakeDebugged{}, nil)} {
		if w := debugAnswer(h, "/debug"); w.Code != 200 || strings.Contains(w.Body.String(), "no value") || !strings.Contains(w.Body.String(), "</html>") {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, of := range map[string][]int{
		"": nil, "3": {3}, "0–1": {0, 1}, "0–3 7 9–12": {0, 1, 2, 3, 7, 9, 10, 11, 12},
	} {
		if got := ranges(of); got != want {
			t.Errorf("%v: got %q, want %q", of, got, want)
		}
	}
}

// The table shows members that own nothing, and no longer those that have gone.
func TestTableShowsMembers(t *testing.T) {
	g := newGroup(t, 1)
	table, _ := g.open()
	shows := func(want ...string) {
		t.Helper()
		until(t, fmt.Sprintf("the table shows members %v", want), func() bool {
			var got []string
			for _, m := range table.members() {
				got = append(got, m.ID)
			}
			return cmp.Equal(got, want)
		})
	}
	shows()
	g.join(shard.Member{ID: "z"})
	g.join(shard.Member{ID: "a"})
	shows("z", "a") // by age
	g.die("z")
	shows("a")
}
