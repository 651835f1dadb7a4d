package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/shard"
)

// good is a history without fault: two tenures of shard 0, and an uncertain write that was applied in the end.
func good() *history {
	e1, e2 := shard.Epoch(40<<48|7), shard.Epoch(40<<48|9)
	return &history{
		heading: heading{Seed: 1, Group: group(), Command: "chaos"},
		faults:  []happened{{fault: fault{Kind: faultStop}, Start: 1, End: 2}},
		ops: []op{
			{ID: "a", Key: "r", Kind: opWrite, Arg: 5, Call: 10, Return: 20, Outcome: ok, Value: 5, Epoch: e1, Node: "node-1"},
			{ID: "b", Key: "r", Kind: opAdd, Arg: 2, Call: 30, Return: 40, Outcome: ok, Value: 7, Epoch: e1, Node: "node-1"},
			{ID: "c", Key: "r", Kind: opRead, Call: 50, Return: 60, Outcome: ok, Value: 7, Epoch: e1, Node: "node-1"},
			{ID: "d", Key: "r", Kind: opWrite, Arg: 9, Call: 70, Return: 80, Outcome: uncertain, Err: "lost"},
			{ID: "e", Key: "r", Kind: opRead, Call: 90, Return: 100, Outcome: ok, Value: 7, Epoch: e2, Node: "node-2"},
			{ID: "f", Key: "r", Kind: opRead, Call: 110, Return: 120, Outcome: ok, Value: 9, Epoch: e2, Node: "node-2"},
			{ID: "g", Key: "r", Kind: opAdd, Arg: 1, Call: 130, Return: 140, Outcome: fail, Err: "busy"},
			{ID: "h", Key: "r", Kind: opRead, Call: 130, Return: 140, Outcome: uncertain},
		},
		rows: []row{
			{N: 1, ID: "a", Key: "r", Kind: opWrite, Value: 5, Epoch: e1, Node: "node-1"},
			{N: 2, ID: "x-1", Key: "beat-0", Kind: opBeat, Value: 1, Epoch: e1, Node: "node-1"},
			{N: 3, ID: "b", Key: "r", Kind: opAdd, Value: 7, Epoch: e1, Node: "node-1"},
			{N: 5, ID: "d", Key: "r", Kind: opWrite, Value: 9, Epoch: e2, Node: "node-2"},
			{N: 6, ID: "x-2", Key: "beat-0", Kind: opBeat, Value: 2, Epoch: e2, Node: "node-2"},
			{N: 7, ID: "x-3", Key: "r", Kind: opFlush, Value: 9, Epoch: e2, Node: "node-2"},
		},
		finals: []final{{"r", 9}, {"beat-0", 2}},
	}
}

func TestChecksPassAGoodHistory(t *testing.T) {
	if err := good().check(t.TempDir()); err != nil {
		t.Error(err)
	}
}

// Each thing that a resource without a fence could do is found.
func TestI6_ChecksFindEachFault(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(h *history)
		want  string
	}{
		"stale write":       {func(h *history) { h.rows[4].Epoch = h.rows[0].Epoch }, "stale write accepted"},
		"one epoch, two":    {func(h *history) { h.rows[2].Node = "node-3" }, "both written under epoch"},
		"order":             {func(h *history) { h.rows[1].N = 1 }, "comes after row"},
		"lost beat":         {func(h *history) { h.rows[4].Value = 1; h.finals[1].Value = 1 }, "want 2: it has overwritten"},
		"stale flush":       {func(h *history) { h.rows[5].Value = 7; h.finals[0].Value = 7 }, "flush of node-2 left r at 7"},
		"lost write":        {func(h *history) { h.rows = append(h.rows[:2], h.rows[3:]...) }, "operation b, add of 2 on r, was acknowledged by node-1"},
		"applied twice":     {func(h *history) { h.rows = append(h.rows, h.rows[3]); h.rows[6].N = 8 }, "was applied 2 times"},
		"written over":      {func(h *history) { h.rows[0].Twice = true }, "was applied twice"},
		"failed, applied":   {func(h *history) { h.ops[3].Outcome = fail }, "failed for certain"},
		"stale memory":      {func(h *history) { h.rows[2].Value = 2 }, "operation b, add of 2, found r at 5 and left it at 2"},
		"other register":    {func(h *history) { h.ops[0].Key = "s" }, "was applied as write on r"},
		"nobody's":          {func(h *history) { h.ops = h.ops[1:] }, "nobody has sent it"},
		"final value":       {func(h *history) { h.finals[0].Value = 7 }, "its last row says 9"},
		"final lost":        {func(h *history) { h.finals = h.finals[1:] }, "register r has rows and does not exist"},
		"stale read":        {func(h *history) { h.ops[5].Value = 5 }, "not linearizable"},
		"read of a failure": {func(h *history) { h.ops[3].Outcome = fail; h.rows = h.rows[:3] }, "not linearizable"},
		"wrong sum":         {func(h *history) { h.ops[1].Value = 8 }, "not linearizable"},
		"future":            {func(h *history) { h.ops[2].Return, h.ops[2].Call, h.ops[2].Value = 9, 8, 5 }, "not linearizable"},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := good(), t.TempDir()
			c.spoil(h)
			err := h.check(dir)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that mentions %q", err, c.want)
			}
			pictures, _ := filepath.Glob(filepath.Join(dir, "*.html"))
			if drawn := len(pictures) > 0; drawn != strings.Contains(err.Error(), "linearizable") {
				t.Errorf("pictures %v of %v", pictures, err)
			}
		})
	}
}

// An uncertain write may happen at any later time, and one of which nobody knows is not tied to its return.
func TestUncertainWritesStayOpen(t *testing.T) {
	for _, o := range operations(good().ops) {
		if open := o.Return == math.MaxInt64; open != (o.Input.(op).ID == "d") {
			t.Errorf("operation %s returns at %d", o.Input.(op).ID, o.Return)
		}
	}
	if n := len(operations(good().ops)); n != 6 {
		t.Errorf("%d operations to put in order, want 6: neither the failed one nor the uncertain read", n)
	}
}

func TestHistoryIsReadAsItWasWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), historyFile)
	want := good()
	if err := want.write(name); err != nil {
		t.Fatal(err)
	}
	got, err := readHistory(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(history{}, happened{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := os.WriteFile(name, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readHistory(name); err == nil {
		t.Error("a file without heading was read as a history")
	}
}

func TestGaps(t *testing.T) {
	g := group()
	at := func(s int, times ...time.Duration) (ops []op) {
		for _, d := range times {
			ops = append(ops, op{Key: registerName(g, s, 0), Outcome: ok, Return: d * time.Second})
		}
		return ops
	}
	h := &history{
		heading: heading{Group: g},
		ops:     append(at(0, 1, 2, 3, 9, 10, 20), at(1, 1, 5, 10, 15, 19)...),
		faults: []happened{
			{fault: fault{Kind: faultStop}, Start: 2 * time.Second, End: 4 * time.Second},
			{fault: fault{Kind: faultKill}, Start: 9500 * time.Millisecond, End: 11 * time.Second},
		},
	}
	want := []gap{
		{faultStop, 1, 6 * time.Second, 6 * time.Second, 6 * time.Second},
		{faultKill, 1, 10 * time.Second, 10 * time.Second, 10 * time.Second},
	}
	if diff := cmp.Diff(want, gapsOf(h), cmp.AllowUnexported(gap{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
