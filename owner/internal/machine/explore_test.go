package machine

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	exploreDeep = flag.Bool("explore.deep", false, "explore the large scopes too: an hour or so")
	exploreOnly = flag.String("explore.only", "", "explore just the scope of this name")
	exploreMost = flag.Int("explore.most", 0, "give up after so many states; 0: never")
)

// xScopes are what is explored. Those that are deep take long.
//
// Fine: requests, answers, each revision of a watch and each event of a handler are delivered one by one, in every order.
// Coarse: a request arrives and is answered with the step that sends it, and a watch brings all there is, unless a fault of its own delays, loses or
// refuses it; free is when which node takes what its watch, its handlers and its clock bring. So much less is free without a
// fault that two faults are within reach.
var xScopes = []struct {
	xScope
	deep bool
}{
	{xScope{name: "cold", nodes: 2, shards: 2, faults: 0}, false},
	{xScope{name: "cold, 1 fault", nodes: 2, shards: 2, faults: 1, coarse: true, takeover: true}, false},
	{xScope{name: "prepared, 1 fault", nodes: 2, shards: 2, faults: 1, coarse: true, settled: true, prepares: true, takeover: true}, false},
	{xScope{name: "fine, 1 fault", nodes: 2, shards: 2, faults: 1, settled: true, allowed: but(fTakeover, fPin)}, false},
	{xScope{name: "3 nodes, 1 fault", nodes: 3, shards: 2, faults: 1, coarse: true, settled: true, takeover: true}, false},
	{xScope{name: "3 nodes, fine, 1 crash", nodes: 3, shards: 2, faults: 1, settled: true, takeover: true, allowed: only(fCrash)}, false},
	{xScope{name: "1 shard, 2 faults", nodes: 2, shards: 1, faults: 2, coarse: true, settled: true, takeover: true}, true},
	{xScope{name: "2 faults", nodes: 2, shards: 2, faults: 2, coarse: true, settled: true, takeover: true}, true},
	{xScope{name: "fine, takeover or pin", nodes: 2, shards: 2, faults: 1, settled: true, takeover: true, allowed: only(fTakeover, fPin)}, true},
}

func only(kinds ...xKind) func(xKind) bool {
	return func(k xKind) bool { return slices.Contains(kinds, k) }
}

func but(kinds ...xKind) func(xKind) bool {
	return func(k xKind) bool { return !slices.Contains(kinds, k) }
}

// TestExplore: in small worlds, whatever the order of events and whatever goes wrong, up to a number of faults, I1 to I8 hold in every
// state, and from every state the goal of I9 is reached once faults have ended.
func TestExplore(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("half a minute, and nothing to race with: run without -race and -short")
	}
	ran := 0
	for _, s := range xScopes {
		if *exploreOnly != "" && s.name != *exploreOnly || *exploreOnly == "" && s.deep && !*exploreDeep {
			continue
		}
		ran++
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			x := explore(s.xScope, s.deep)
			if x.bad == nil && !x.complete && *exploreMost == 0 {
				t.Error("not complete")
			}
			t.Log(x)
			if bad := x.wrong(); bad != "" {
				t.Fatalf("%s\nagain: go test ./owner/internal/machine -run 'TestExplore$' -v -explore.only '%s'", bad, s.name)
			}
		})
	}
	if ran == 0 {
		t.Errorf("no scope has the name %q", *exploreOnly)
	}
}

// TestExplore_ChecksTheFence: without one, what a zombie writes lands after its successor's (I6). The exploration sees it.
func TestExplore_ChecksTheFence(t *testing.T) {
	x := explore(xScope{name: "no fence", nodes: 2, shards: 2, faults: 1, coarse: true, settled: true, unfenced: true, allowed: only(fEvict)}, false)
	if bad := x.wrong(); !strings.Contains(bad, "I6") {
		t.Fatalf("got %q, want a violation of I6\n%v", bad, x)
	}
}

func explore(s xScope, long bool) *xSearch {
	sc := s.ready()
	first := newXWorld(sc)
	if s.settled {
		first = sc.settle()
	}
	x := newXSearch(sc, first)
	x.most, x.every, x.deep = *exploreMost, 1009, long
	if long {
		x.every = 100_003 // ways are long there, and an audit walks one
		last := time.Now()
		x.progress = func() {
			if time.Since(last) > 10*time.Second {
				last = time.Now()
				fmt.Fprintf(os.Stderr, "%v; %d to go on from\n", x, len(x.level))
			}
		}
	}
	x.run()
	return x
}

func (x *xSearch) String() string {
	how := "not complete"
	if x.complete {
		how = "complete"
	}
	grain := "fine"
	if x.scope.coarse {
		grain = "coarse"
	}
	return fmt.Sprintf("%s (%d nodes, %d shards, %d faults, %s): %d states, %d steps, depth %d, %s; %d of the states calm, %d of those the goal; %d audited; %v, %.0f states/s",
		x.scope.name, x.scope.nodes, x.scope.shards, x.scope.faults, grain, len(x.parent), x.steps, x.depth, how, x.calm+x.goals, x.goals, x.audited,
		x.took.Round(time.Millisecond), float64(len(x.parent))/x.took.Seconds())
}

// wrong says what was found, with how it comes about; or nothing.
func (x *xSearch) wrong() string {
	const most = 200
	if x.bad != nil {
		lines := x.trace(x.path(x.bad.at, x.bad.action))
		return fmt.Sprintf("%s, after\n%s\n%s", x.bad.text, strings.Join(lines[max(0, len(lines)-most):], "\n"), x.bad.text)
	}
	if cycle := x.wedged(); len(cycle) > 0 {
		lines := x.trace(x.path(cycle[0], -1))
		return fmt.Sprintf("I9: a cycle of %d states outside of the goal, after\n%s", len(cycle), strings.Join(lines[max(0, len(lines)-most):], "\n"))
	}
	return ""
}
