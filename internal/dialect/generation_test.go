package dialect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// plan is a small world of the protocol in generation.go. All that can come of it is explored, the steps of everybody in every
// order. In the beginning epoch 1 of both shards is sealed. Whose seal has returned may begin.
type plan struct {
	name     string
	clients  []client // those who write come first
	failover bool     // once, to what the database was at any earlier moment
	again    bool     // a transaction may be guarded twice
	oneKey   bool     // the shards share their advisory lock
	now      bool     // a guard finds wanted as it is when it reads the generation; otherwise as it was at any time since it began
	broken   string   // a rule; see the controls
}

// client is a session of a token, how often it begins, and what.
type client struct {
	shard, epoch, times uint8
	sealing             bool
}

const writes, seals = false, true

type world struct {
	row, wanted, replicaRow, replicaWanted [2]uint8
	lost                                   uint8 // 1: the replica gets no more; 2: it has taken over
	sealed                                 [2][4]bool
	told                                   [2]uint8 // newest epoch that was wanted when the generation was set for the first time
	sessions                               [5]session
	generations                            [18]uint8
}

// Whose generations there are: memory is for 8 tokens, and 3 transactions have found what their clients have yet to hear.
const generation, replica, remembered, found, read = 0, 1, 2, 10, 13

type session struct {
	at, left             uint8
	shard, queued, row   bool // the locks that it has: shared by guards, and a seal's alone; queued: it waits for the shard's
	snapshot, late, more bool // it began when its own epoch was wanted, or when a newer one was told; it may be guarded again
}

const (
	idle, written, tried, locking, passed                         uint8 = 0, 1, 2, 3, 4       // of a transaction
	raising, telling, queueing, updating, renewing, ready, ending uint8 = 1, 2, 3, 4, 5, 6, 7 // of a seal
)

type step struct {
	c    client
	what string
	to   world
	luck bool   // nobody can count on it
	bad  string // what is wrong with it
}

func (p *plan) steps(w world, visit func(step)) {
	for i, c := range p.clients {
		if c.sealing {
			p.seal(w, i, c, visit)
		} else {
			p.transact(w, i, c, visit)
		}
	}
	switch {
	case p.failover && w.lost == 0:
		w.lost, w.replicaRow, w.replicaWanted, w.generations[replica] = 1, w.row, w.wanted, w.generations[generation]
		visit(step{what: "the replica gets no more", to: w, luck: true})
	case w.lost == 1:
		w.lost, w.row, w.wanted, w.generations[generation], w.told = 2, w.replicaRow, w.replicaWanted, w.generations[replica], [2]uint8{}
		for i := range p.clients {
			w.end(i)
		}
		visit(step{what: "the replica takes over", to: w, luck: true})
	}
}

// end ends a transaction, by a commit or not: what follows is the same, and its client may hear of what it has found all the same.
func (w *world) end(i int) {
	w.sessions[i], w.generations[read+i] = session{left: w.sessions[i].left}, 0
}

func pick[T any](is bool, yes, no T) T {
	if is {
		return yes
	}
	return no
}

func (p *plan) transact(w world, i int, c client, visit func(step)) {
	before, s, g, held := w, &w.sessions[i], &w.generations, p.held(&w, c)
	does := func(what, bad string) {
		visit(step{c, what, w, false, bad})
		w = before
	}
	pass := func(what string) {
		s.at, g[read+i] = passed, 0
		does(what, pick(s.late, "it began when a newer epoch was wanted and the generation set, and passes", ""))
	}
	memory := &g[remembered+c.shard*4+pick(p.broken == "remember it for the token", 0, c.epoch)]
	if g[found+i] != 0 {
		*memory, g[found+i] = pick(p.broken == "read it before the end", g[generation], g[found+i]), 0
		does("hears in which generation it has passed", "")
	}
	wanted := w.wanted[c.shard] == c.epoch
	switch s.at {
	case idle:
		if s.left > 0 && w.sealed[c.shard][c.epoch] {
			s.at, s.left, s.more, g[found+i] = written, s.left-1, p.again, 0
			s.snapshot, s.late = !p.now && wanted, p.now && w.told[c.shard] > c.epoch
			does("begins, and writes", "")
		}
	case written:
		if p.broken != "do not wait" || !held.queued {
			s.at, s.shard = tried, s.shard || !held.queued && p.broken != "lock the shard"
			does(pick(s.shard, "has the shard's lock", "does not get the shard's lock"), "")
		}
	case tried:
		same := *memory == g[generation] || *memory != 0 && p.broken == "compare"
		if same && (s.shard || p.broken == "lock the shard") {
			pass("passes the short way")
			return
		}
		if wanted || s.snapshot {
			s.at, g[read+i] = locking, g[generation]
			does("finds its epoch wanted, and reads the generation", "")
		}
		if !wanted {
			w.end(i)
			does("finds another epoch wanted, and rolls back", "")
		}
	case locking:
		switch s.row = p.broken != "lock the row"; {
		case s.row && held.alone: // it waits
		case w.row[c.shard] != c.epoch:
			w.end(i)
			does("finds another epoch in the row, and rolls back", "")
		default:
			g[found+i] = pick(p.broken == "read it before the row", 0, g[read+i])
			pass("locks the row, and passes")
		}
	case passed:
		if s.row && p.broken == "read it before the row" {
			g[found+i] = g[generation]
			does("reads the generation", "")
		}
		if s.more {
			s.at, s.more = written, false
			does("writes more", "")
		}
		w.end(i)
		does("ends", pick(w.row[c.shard] != c.epoch, "it commits, and the row says another epoch", ""))
	}
}

func (p *plan) seal(w world, i int, c client, visit func(step)) {
	before, s, held := w, &w.sessions[i], p.held(&w, c)
	does := func(at uint8, what, bad string) {
		s.at = at
		visit(step{c, what, w, what == "is cut", bad})
		w = before
	}
	ordered := p.broken != "lock the shard before the row"
	row, wanted, sealed := &w.row[c.shard], &w.wanted[c.shard], &w.sealed[c.shard][c.epoch]
	if s.at != idle {
		w.end(i)
		does(idle, "is cut", "")
	}
	switch s.at {
	case idle:
		switch s.left--; {
		case before.sessions[i].left == 0 || max(*row, *wanted) > c.epoch: // it is refused
		case *row < c.epoch || *wanted < c.epoch:
			does(raising, "begins", "")
		default:
			*sealed = *sealed || p.broken == "set it if it is sealed"
			does(pick(p.broken == "set it if it is sealed", idle, ending), "finds itself sealed", "")
		}
	case raising: // that it looks again for a newer one is left out: it may be too early, and to give up is the same as to be cut
		*wanted = max(*wanted, c.epoch)
		does(telling, "raises wanted", "")
	case telling:
		if p.set(&w, p.broken != "set it when wanted is raised"); p.now {
			w.told[c.shard] = max(w.told[c.shard], *wanted)
		}
		does(pick(ordered, queueing, updating), "sets the generation", "")
	case queueing:
		switch locks := p.broken != "lock the shard alone"; {
		case !locks || !held.shared && !held.shard:
			p.set(&w, p.broken == "set it behind the row")
			s.shard, s.queued = locks, false
			does(pick(ordered, updating, renewing), "has the shard's lock alone", "")
		case !s.queued:
			s.queued = true
			does(queueing, "waits for the shard's lock", "")
		}
	case updating:
		switch {
		case held.row || held.alone: // it waits
		case *row < c.epoch:
			s.row = true
			does(pick(ordered, renewing, queueing), "raises the row", "")
		default:
			w.end(i)
			does(pick(*row == c.epoch, ending, idle), "finds the row raised", "")
		}
	case renewing:
		p.set(&w, p.broken != "set it when the row is raised" && p.broken != "set it behind the row")
		does(ready, "sets the generation", "")
	case ready:
		bad := ""
		for j, o := range p.clients {
			if !o.sealing && w.sessions[j].at == passed && o.shard == c.shard && o.epoch < c.epoch {
				bad = "a transaction of an older epoch is open, and has passed"
			}
		}
		*row = c.epoch
		w.end(i)
		does(ending, "commits", bad)
	case ending:
		p.set(&w, p.broken != "set it when the row is committed")
		*sealed = true
		does(idle, "sets the generation, and returns", "")
	}
}

// set makes a generation that nobody knows.
func (p *plan) set(w *world, really bool) {
	if really {
		w.generations[generation] = pick(p.broken == "make it random", w.generations[generation], slices.Max(w.generations[:])) + 1
	}
}

// held are the locks that c finds. Of the shard's: shared by guards, a seal's, or that or waited for by one. Of the row: shared, or alone.
func (p *plan) held(w *world, c client) (h struct{ shared, shard, queued, row, alone bool }) {
	for i, o := range p.clients {
		s, same := &w.sessions[i], o.shard == c.shard
		shard, queued, row := s.shard && (same || p.oneKey), s.queued && (same || p.oneKey), s.row && same
		h.shared, h.row = h.shared || shard && !o.sealing, h.row || row && !o.sealing
		h.shard, h.queued, h.alone = h.shard || shard && o.sealing, h.queued || queued || shard && o.sealing, h.alone || row && o.sealing
	}
	return h
}

// rename numbers generations by where they are, so that worlds that differ in nothing else are one.
func (w *world) rename() {
	names, last := [32]uint8{}, uint8(0)
	for i, g := range w.generations {
		if g != 0 && names[g] == 0 {
			last++
			names[g] = last
		}
		w.generations[i] = names[g]
	}
}

// explore is breadth first: the way to what is wrong, which it returns, is a shortest one.
func (p *plan) explore() (states int, short [2]int, wrong string) {
	first := world{row: [2]uint8{1, 1}, wanted: [2]uint8{1, 1}, sealed: [2][4]bool{{1: true}, {1: true}}}
	first.generations[generation] = 1
	for i, c := range p.clients {
		first.sessions[i].left = c.times
	}
	been, from, seen := []step{{to: first}}, []int{-1}, map[world]bool{first: true}
	for at := 0; at < len(been) && wrong == ""; at++ {
		w, stuck := been[at].to, true
		p.steps(w, func(s step) {
			if p.broken != "make it random" {
				s.to.rename()
			}
			if stuck = stuck && s.luck; s.what == "passes the short way" {
				short[s.c.shard]++
			}
			if s.bad != "" {
				wrong = fmt.Sprintf("%v\n%s", s, s.bad)
			}
			if !seen[s.to] {
				seen[s.to] = true
				been, from = append(been, s), append(from, at)
			}
		})
		if stuck && wrong == "" && slices.ContainsFunc(w.sessions[:], func(s session) bool { return s.at != idle }) {
			wrong = "all wait for each other"
		}
		for i := at; wrong != "" && i > 0; i = from[i] {
			wrong = fmt.Sprintf("%v\n%s", been[i], wrong)
		}
	}
	return len(been), short, wrong
}

// String has the generations as rename has them: the database's is 1, a replica's that is another 2.
func (s step) String() string {
	who := pick(s.c.sealing, "seal", "transaction")
	return fmt.Sprintf("%s %d/%d %s: row %d wanted %d remembered %d", who, s.c.shard, s.c.epoch, s.what, s.to.row, s.to.wanted, s.to.generations[remembered:found])
}

var generationPlans = []plan{
	{name: "one", clients: []client{{0, 1, 2, writes}, {0, 2, 2, writes}, {0, 2, 2, seals}}},
	{name: "failover", clients: []client{{0, 1, 2, writes}, {0, 2, 2, writes}, {0, 2, 2, seals}}, failover: true},
	{name: "three", clients: []client{{0, 1, 2, writes}, {0, 2, 2, writes}, {0, 3, 1, writes}, {0, 2, 1, seals}, {0, 3, 1, seals}}},
	{name: "again", clients: []client{{0, 1, 2, writes}, {0, 1, 1, writes}, {0, 2, 1, seals}}, again: true},
	{name: "now", clients: []client{{0, 1, 2, writes}, {0, 1, 2, writes}, {0, 2, 1, writes}, {0, 2, 1, seals}}, now: true},
	{name: "two calls", clients: []client{{0, 1, 2, writes}, {0, 2, 1, writes}, {0, 2, 1, seals}, {0, 2, 1, seals}}, failover: true},
	{name: "two", clients: []client{{0, 1, 2, writes}, {1, 1, 1, writes}, {0, 2, 1, seals}}, failover: true},
	{name: "two, both sealed", clients: []client{{0, 1, 2, writes}, {0, 2, 1, seals}, {1, 2, 1, seals}}, failover: true},
	{name: "two, one key", clients: []client{{0, 1, 2, writes}, {1, 1, 2, writes}, {0, 2, 1, seals}}, oneKey: true},
}

// TestGeneration: no older transaction that has passed is open when an epoch is sealed, none commits if the row says another, nobody waits for ever.
func TestGeneration(t *testing.T) {
	for _, p := range generationPlans {
		states, short, wrong := p.explore()
		if t.Logf("%s: %d states, %d short", p.name, states, short); wrong != "" || short == [2]int{} {
			t.Fatalf("%s: %d passed the short way; wrong:\n%s", p.name, short, wrong)
		}
	}
}

// TestGeneration_Controls: without a rule something is wrong in one plan, and in other nothing, because it is for what does not happen there.
func TestGeneration_Controls(t *testing.T) {
	for _, c := range []struct {
		in, want, other string
		broken          []string
	}{
		{"one", "has passed", "", []string{"lock the shard", "lock the row", "lock the shard alone"}},
		{"one", "commits", "", []string{"compare", "set it when the row is raised", "set it behind the row", "read it before the end", "remember it for the token"}},
		{"one", "all wait", "", []string{"lock the shard before the row"}},
		{"again", "all wait", "one", []string{"do not wait"}},
		{"now", "it began", "one", []string{"set it when wanted is raised", "read it before the row"}},
		{"failover", "commits", "one", []string{"set it when the row is committed", "set it if it is sealed", "make it random"}},
	} {
		for _, p := range generationPlans {
			for _, p.broken = range c.broken {
				if p.name != c.in && p.name != c.other {
					continue
				}
				_, _, wrong := p.explore()
				last := wrong[strings.LastIndex(wrong, "\n")+1:]
				if t.Logf("not %q, %s: %s", p.broken, p.name, last); p.name == c.other && wrong != "" || p.name == c.in && !strings.Contains(last, c.want) {
					t.Errorf("not %q, %s: got %q", p.broken, p.name, wrong)
				}
			}
		}
	}
}
