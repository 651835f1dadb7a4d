package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var group = shard.Group{Name: "accounts", Shards: 8}

func serve(ctx context.Context, t *owner.Tenure) error {
	t.Ready()
	<-ctx.Done()
	return nil
}

// TestCommands: what an operator says shows in a living group, whose shards need not be told.
func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 2, group, serve, owner.Config{Version: "v7"})
		do := func(words ...string) (string, error) {
			t.Helper()
			call, err := parse(words)
			if err != nil {
				t.Fatal(err)
			}
			o := options{group: "accounts", prefix: "/tenure"}
			g, err := o.find(t.Context(), c.Store)
			if err != nil || g.Shards != 8 {
				t.Fatalf("find: %+v, %v", g, err)
			}
			var out strings.Builder
			err = call.run(t.Context(), c.Store, g, &out)
			return out.String(), err
		}
		must := func(words ...string) string {
			t.Helper()
			out, err := do(words...)
			if err != nil {
				t.Errorf("%v: %v", words, err)
			}
			time.Sleep(10 * time.Second) // till the member has heard, and the planner has acted
			c.Settle()
			return out
		}
		if out := must("members"); strings.Count(out, "v7") != 2 || strings.Count(out, "planner") != 1 {
			t.Errorf("members:\n%s", out)
		}
		held := func(node int) int { return len(c.Nodes[node].Status().Shards) }
		id := c.Nodes[0].Status().Self.ID
		must("drain", id)
		if held(0) != 0 || held(1) != 8 || !strings.Contains(must("members"), "draining") {
			t.Errorf("drained: %d and %d shards", held(0), held(1))
		}
		must("undrain", id)
		if held(0) != 4 {
			t.Errorf("undrained: %d shards", held(0))
		}
		other := 1 - c.Owner("alice")
		must("pin", "0", c.Nodes[other].Status().Self.ID)
		must("unpin", "0")
		if before := c.Tenure("alice").Token().Epoch.Lineage(); before != 0 {
			t.Fatalf("lineage %d", before)
		}
		must("raise-lineage", "40")
		if after := c.Tenure("alice").Token().Epoch.Lineage(); after != 41 {
			t.Errorf("lineage after raising above 40: %d", after)
		}
		for _, words := range [][]string{{"drain", "nobody"}, {"pin", "8", id}, {"pin", "x", id}, {"unpin", "-1"}, {"raise-lineage", "-2"}, {"raise-lineage", "40000"}} {
			if out, err := do(words...); err == nil {
				t.Errorf("%v: no error, %q", words, out)
			}
		}
	})
}

func TestParse(t *testing.T) {
	for words, want := range map[string]string{
		"":             "no command",
		"member":       `unknown command "member"`,
		"drain":        `drain: got 0 arguments, want "drain ID"`,
		"members all":  `members: got 1 arguments, want "members"`,
		"pin 3 node x": `want "pin SHARD ID"`,
	} {
		if _, err := parse(strings.Fields(words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", words, err, want)
		}
	}
}

// TestRun: bad input is status 2 with a hint, failure 1; nothing hangs.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"-help", 0, "raise-lineage ABOVE"},
		{"members", 2, "-group is required"},
		{"-group accounts", 2, "no command"},
		{"-group accounts -nope members", 2, "not defined"},
		{"-etcd 127.0.0.1:1 -timeout 100ms -group accounts members", 1, "read the config of group accounts"},
		{"-group A! members", 1, "A!"},
		{"-cert x -group accounts members", 1, "need -cacert"},
		{"-cacert /does/not/exist -group accounts members", 1, "no such file"},
	} {
		var said strings.Builder
		if got := run(t.Context(), strings.Fields(c.args), io.Discard, &said); got != c.status || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: status %d, want %d; it says\n%s", c.args, got, c.status, &said)
		}
	}
}

// TestFind: a group that nobody has joined is an error that says so.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 1, group, serve, owner.Config{})
		o := options{group: "accouts", prefix: "/tenure"}
		if _, err := o.find(t.Context(), c.Store); err == nil || !strings.Contains(err.Error(), "no member has ever joined") {
			t.Errorf("got %v", err)
		}
		if e, err := c.Store.Get(t.Context(), layout.For(group.WithDefaults()).Config()); err != nil || e.Rev == 0 {
			t.Errorf("the group's own config: %+v, %v", e, err)
		}
	})
}
