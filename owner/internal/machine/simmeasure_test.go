package machine

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

var measure = flag.Bool("measure", false, "print the table of what changes of membership cost: about a minute")

// hop is what a message takes one way in TestMeasure, what the store takes to commit, and what a handler takes to seal, to
// load and to flush.
const hop = time.Millisecond

// TestMeasure prints what a change of membership costs, as a function of shards and members. It is the same for every run:
// time is virtual, and the plan itself takes a hop, whatever its size.
func TestMeasure(t *testing.T) {
	changes := []change{
		{"join", join},
		{"leave", func(c *cost) { c.remove(c.nodes[c.Members/2], (*simNode).leave) }},
		{"crash", func(c *cost) { c.remove(c.nodes[c.Members/2], (*simNode).crash) }},
		{"planner's crash", func(c *cost) { c.remove(c.planner(), (*simNode).crash) }},
		{"rolling restart of all", rolling},
	}
	if !*measure {
		c := cost{change: changes[4], Shards: 16, Members: 3}
		if broken := c.take(); broken != "" || c.moved != c.needed || c.sent[Transfer] == 0 {
			t.Errorf("%s: %d shards changed their owner, at least %d had to; transactions: %v", broken, c.moved, c.needed, c.sent)
		}
		return
	}
	var costs []*cost
	for _, ch := range changes {
		for _, members := range []int{3, 10, 50} {
			for _, shards := range []int{64, 256, 1024, 4096} {
				costs = append(costs, &cost{change: ch, Shards: shards, Members: members})
			}
		}
	}
	todo := make(chan *cost)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for c := range todo {
				if broken := c.take(); broken != "" {
					t.Errorf("%s, %d members, %d shards: %s", c.name, c.Members, c.Shards, broken)
				}
			}
		})
	}
	for _, c := range costs {
		todo <- c
	}
	close(todo)
	wg.Wait()
	fmt.Printf("Each message takes %v, a commit %v more, a handler %v to seal, %v to load and %v to flush; the TTL is 10 s, "+
		"the settle time 1 s. A crash takes till the lease ends, and the time after that. Renewals are not counted.\n\n", hop, hop, hop, hop, hop)
	fmt.Println("| change | members | shards | changed owner | at least | converged after | transactions | of which |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|---|")
	for _, c := range costs {
		fmt.Println(c.row())
	}
}

type change struct {
	name string
	play func(*cost)
}

// cost is what a change takes in a cluster of so many shards and members.
type cost struct {
	change
	*world
	Shards, Members int

	moved  int // shards that changed their owner
	needed int // so many had to, at least
	took   time.Duration
	unseen time.Duration // of which nobody could know: the lease had not ended
	sent   map[Kind]int
}

// take plays the change in a cluster of its own, and returns what it violated.
func (c *cost) take() (broken string) {
	_, broken = play(1, c.Shards, false, c.measure)
	return broken
}

func (c *cost) measure(w *world) {
	c.world, w.fixed, w.poll, w.most = w, hop, 5*time.Millisecond, 100
	w.base = Config{
		Member: layout.Member{Member: shard.Member{Weight: 1}}, TTL: 10 * time.Second, StartTimeout: 30 * time.Second,
		PrepareTimeout: 10 * time.Second, DrainTimeout: 8 * time.Second, MinMembers: c.Members, Settle: time.Second,
	}
	w.after(0, w.expireLeases)
	for i := range c.Members {
		w.after(time.Duration(i)*hop, func() { w.boot(w.fresh(), w.base) })
	}
	w.run(time.Second)
	w.settle(time.Minute)
	w.run(w.now + 20*time.Second)
	began, moved := w.now, w.checks.handed
	clear(w.checks.txns)
	c.play(c)
	c.took, c.moved, c.sent = w.checks.last-began, w.checks.handed-moved, maps.Clone(w.checks.txns)
	if w.checks.expired > began {
		c.unseen = w.checks.expired - began
	}
}

// expect adds what it takes, at least, to bring all within quota: what is orphaned gets a new owner, and what exceeds the
// quotas of those who hold the rest.
func (c *cost) expect(orphans int, held []int) { c.needed += orphans + movesNeeded(c.Shards, held) }

// held is what each live process owns, but for one.
func (c *cost) held(but *simNode) []int {
	var held []int
	for _, n := range c.live() {
		if n != but {
			held = append(held, len(n.tenures))
		}
	}
	return held
}

func join(c *cost) {
	c.expect(0, append(c.held(nil), 0))
	c.boot(c.fresh(), c.base)
	c.run(c.now + c.base.Settle/2) // it has to be there before it is missed
	c.settle(time.Minute)
}

func (c *cost) remove(n *simNode, end func(*simNode)) {
	c.expect(len(n.tenures), c.held(n))
	end(n)
	c.run(c.now + hop/2)
	c.settle(time.Minute)
}

// planner is the process that plans.
func (c *cost) planner() *simNode {
	_, id, _ := c.sees().Oldest()
	return c.aliveUnder(id)
}

// rolling restarts one after another, each when all is well again.
func rolling(c *cost) {
	for _, n := range c.live() {
		c.remove(n, (*simNode).leave)
		c.expect(0, append(c.held(nil), 0))
		c.boot(n.id, c.base)
		c.run(c.now + c.base.Settle/2)
		c.settle(time.Minute)
	}
}

func (c *cost) row() string {
	sum := 0
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(c.sent)) {
		sum += c.sent[k]
		kinds = append(kinds, fmt.Sprintf("%d %s", c.sent[k], k))
	}
	took := c.took.Round(time.Millisecond).String()
	if c.unseen != 0 {
		took = fmt.Sprintf("%v + %v", c.unseen.Round(time.Millisecond), (c.took - c.unseen).Round(time.Millisecond))
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %s | %d | %s |", c.name, c.Members, c.Shards, c.moved, c.needed, took, sum, strings.Join(kinds, ", "))
}
