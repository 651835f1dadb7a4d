package router_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
)

// The page of a real node: what it holds, and what has happened to it.
func TestDebugOfANode(t *testing.T) {
	c := ownertest.Start(t, 2, accounts, ready, owner.Config{Version: "v7"})
	table, err := router.Open(t.Context(), c.Store, accounts, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	from := c.Owner("alice")
	c.Move("alice", 1-from)
	fenced := c.Tenure("alice")
	fenced.Fail(&fence.FencedError{Mine: fenced.Token().Epoch, Current: fenced.Token().Epoch + 1})
	wait(t, "the next tenure", func() bool { return c.Tenure("alice") != fenced })
	c.Settle()

	type state struct {
		Node struct {
			ID       string
			Version  string
			Ready    string
			Trust    int `json:"trust_ms"`
			Counters map[string]int
		}
		Table struct{ Owned int }
		Here  []struct {
			Shard int
			Epoch string
			State string
		}
	}
	look := func(node int) (s state) {
		t.Helper()
		w := httptest.NewRecorder()
		router.Debug(c.Nodes[node], table).ServeHTTP(w, httptest.NewRequest("GET", "/debug.json", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := look(1 - from)
	if s.Node.ID != c.Nodes[1-from].Status().Self.ID || s.Node.Version != "v7" || s.Node.Ready != "yes" || s.Node.Trust <= 0 || s.Node.Trust > 2000 {
		t.Errorf("node: got %+v", s.Node)
	}
	if s.Node.Counters["fenced"] != 1 || s.Node.Counters["failed"] != 1 {
		t.Errorf("a tenure that a fence refused: got %v, want one fenced and failed", s.Node.Counters)
	}
	if got := look(from).Node.Counters; got["handed_off"] != 1 || got["fenced"] != 0 {
		t.Errorf("at the source of the move: got %v, want one handed off", got)
	}
	wait(t, "the table shows all", func() bool { return look(0).Table.Owned == accounts.Shards })
	found := false
	s = look(1 - from)
	for _, h := range s.Here {
		if h.Shard == accounts.Of("alice") {
			found = h.State == "ready" && h.Epoch == c.Tenure("alice").Token().Epoch.String()
		}
	}
	if !found {
		t.Errorf("got %+v, want alice's shard, ready, under %v", s.Here, c.Tenure("alice").Token().Epoch)
	}
	wait(t, "a renewal", func() bool { return look(0).Node.Counters["renewals"] > 0 })

	c.Cut(from, true)
	wait(t, "trust to end", func() bool {
		s := look(from)
		return s.Node.Trust == 0 && s.Node.Counters["lost"] > 0
	})
	w := httptest.NewRecorder()
	router.Debug(c.Nodes[from], table).ServeHTTP(w, httptest.NewRequest("GET", "/debug", nil))
	if !strings.Contains(w.Body.String(), "admits nothing") {
		t.Error("the page does not say that the node admits nothing")
	}
	wait(t, "renewals to fail", func() bool { return look(from).Node.Counters["renewal_failures"] > 0 })
	c.Cut(from, false)
}
