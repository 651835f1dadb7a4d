package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// stage is where a script is played: real machines, the model store, and between them messages that arrive in the
// order of their sending unless the script holds or loses them. Handlers do well at once unless it says otherwise.
type stage struct {
	testing.TB
	where string // file, line and command, for failures
	file  string

	now    time.Duration
	group  shard.Group
	keys   layout.Keys
	store  *modelStore
	down   bool        // the store answers nobody, and no lease expires
	backup *modelStore // as it was once

	procs  []*process
	queue  []*message
	holds  map[string]*hold
	losses map[string]int // armed: messages of that name that will be lost, once each
	drops  map[string]int // the same, with nobody the wiser
	lessee map[cas.LeaseID]*process
	checks stageChecks

	lines    []string // of the block
	began    time.Duration
	last     time.Duration // time of the line before
	quiet    bool
	renewals bool // told too
	facts    []string
	epochs   map[int]shard.Epoch // of each claim when the facts begin
}

func newStage(t testing.TB, file string) *stage {
	g := &stage{
		TB: t, file: file, now: time.Hour, store: newModelStore(),
		holds: make(map[string]*hold), losses: make(map[string]int), drops: make(map[string]int), lessee: make(map[cas.LeaseID]*process),
	}
	g.shards(1)
	return g
}

// shards sets the size of the group, before anything happens.
func (g *stage) shards(n int) {
	g.group = shard.Group{Name: "g", Shards: n}.WithDefaults()
	g.keys = layout.For(g.group)
	g.checks = newStageChecks(g)
	g.store.changed = g.checks.changed
	g.since()
}

// since forgets the facts so far.
func (g *stage) since() {
	g.facts = nil
	g.epochs = make(map[int]shard.Epoch)
	for s := range g.group.Shards {
		g.epochs[s] = g.checks.epochOf(s)
	}
}

// block plays a block, and returns its trace.
func (g *stage) block(b *block) []string {
	g.lines, g.began, g.last = nil, g.now, g.now
	for i, c := range b.commands {
		g.where = fmt.Sprintf("%s:%d: %s", g.file, b.line+i, c)
		g.command(c)
	}
	return g.lines
}

// over is the end of the script. Faults that it named and that did not come about are mistakes.
func (g *stage) over() {
	for name, h := range g.holds {
		if !h.ever {
			g.Errorf("%s: hold %s: there was no such message", g.file, name)
		}
	}
	for name, n := range g.losses {
		if n > 0 {
			g.Errorf("%s: lose %s: there was no such message", g.file, name)
		}
	}
	for name, n := range g.drops {
		if n > 0 {
			g.Errorf("%s: drop %s: there was no such message", g.file, name)
		}
	}
}

func (g *stage) failf(format string, args ...any) {
	g.Helper()
	g.Fatalf("%s: %s\nthe block so far:\n%s", g.where, fmt.Sprintf(format, args...), strings.Join(g.lines, "\n"))
}

// tell adds a line to the trace, with the time since the block's beginning where it has changed.
func (g *stage) tell(format string, args ...any) {
	if g.quiet {
		return
	}
	at := ""
	if g.now != g.last {
		at = "+" + (g.now - g.began).Round(time.Millisecond).String()
	}
	g.last = g.now
	g.lines = append(g.lines, fmt.Sprintf("%-8s ", at)+fmt.Sprintf(format, args...))
}

func (g *stage) fact(format string, args ...any) {
	g.facts = append(g.facts, fmt.Sprintf(format, args...))
}

// run delivers what is in flight, and lets time pass when nothing is. If until is set it stops behind the first line of
// the trace that has it, and one has to come.
func (g *stage) run(d time.Duration, until string) {
	end, from := g.now+d, len(g.lines)
	for range 100_000 {
		for ; until != "" && from < len(g.lines); from++ {
			if strings.Contains(g.lines[from], until) {
				return
			}
		}
		if g.deliver() {
			g.checks.gates()
			continue
		}
		at := g.next()
		if at > end {
			if until != "" {
				g.failf("it did not come to that")
			}
			g.now = end
			g.checks.gates()
			return
		}
		g.now = max(g.now, at)
		g.checks.gates() // before anybody has been told the time: gates read the clock
		g.due()
		g.checks.gates()
	}
	g.failf("it never comes to rest")
}

// next is when something is due by itself; the far future if nothing is.
func (g *stage) next() time.Duration {
	at := g.now + 1000*time.Hour
	for _, l := range g.store.leases {
		if !g.down {
			at = min(at, l.expires)
		}
	}
	for _, p := range g.procs {
		if !p.up || p.paused {
			continue
		}
		if next := p.m.Next(); next != 0 {
			at = min(at, next)
		}
		for _, q := range p.asked {
			if !q.answered {
				at = min(at, q.deadline)
			}
		}
	}
	return at
}

// due does what is due.
func (g *stage) due() {
	for id := range g.store.last {
		if l := g.store.leases[id+1]; l != nil && !g.down && l.expires <= g.now {
			g.endLease("expired", fmt.Sprintf("lease %d of %s expires", id+1, g.who(id+1)), id+1)
		}
	}
	for _, p := range g.procs {
		if !p.up || p.paused {
			continue
		}
		for _, q := range p.asked {
			if !q.answered && q.deadline <= g.now {
				q.answered = true
				q.timedOut()
			}
		}
		p.asked = slices.DeleteFunc(p.asked, func(q *question) bool { return q.answered })
		if next := p.m.Next(); p.up && next != 0 && next <= g.now {
			p.step(Tick{})
			if next := p.m.Next(); p.up && next != 0 && next <= g.now {
				g.failf("after a Tick at %v, Next of %s is %v: the driver would spin", g.now, p.name, next)
			}
		}
	}
}

// endLease ends a lease with all that is under it.
func (g *stage) endLease(why, text string, id cas.LeaseID) error {
	before := g.store.rev
	err := g.store.revoke(why, id)
	switch {
	case err != nil:
		g.tell("store: %s: it is gone already", text)
	case g.store.rev == before:
		g.tell("store: %s", text)
	default:
		g.tell("store %d: %s: %s", g.store.rev, text, g.tellChange(g.store.log[len(g.store.log)-1]))
		g.notify()
	}
	return err
}

// commit is a transaction at the store.
func (g *stage) commit(p *process, e Commit) (int64, error) {
	g.checks.actor = p
	defer func() { g.checks.actor = nil }()
	broken, before := g.tellBroken(e.Txn), g.store.rev
	rev, err := g.store.commit(string(e.Kind), e.Txn)
	if err != nil {
		why := err.Error()
		if _, ok := errors.AsType[*cas.ConflictError](err); ok {
			why = broken
		}
		g.tell("store: refuses %s's %s: %s", p.name, e.Kind, why)
		g.fact("%s %s refused", p.name, e.Kind)
		return 0, err
	}
	did := "nothing to do"
	if rev > before {
		did = g.tellChange(g.store.since(before)[0])
	}
	g.tell("store %d: %s's %s: %s", rev, p.name, e.Kind, did)
	g.fact("%s %s applied", p.name, e.Kind)
	return rev, nil
}

// operator changes the store by hand.
func (g *stage) operator(ops ...cas.Op) {
	rev, err := g.store.commit("operator", cas.Txn{Then: ops})
	if err != nil {
		g.failf("%v", err)
	}
	g.tell("store %d: operator: %s", rev, g.tellChange(g.store.log[len(g.store.log)-1]))
	g.notify()
}

// notify has the watches bring what is new.
func (g *stage) notify() {
	for _, p := range g.procs {
		p.pump()
	}
}
