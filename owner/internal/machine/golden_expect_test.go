package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The facts that a script can ask about, by what they are about. "given" forgets those before it.
var (
	kindVerbs   = []string{"sent", "applied", "refused", "unanswered"}
	tenureVerbs = []string{"prepares", "starts", "opens", "closes", "ends", "lost", "overdue", "forced", "finishes", "writes", "fenced"}
	exitNames   = []string{"Left", "Taken", "Restored", "Unusable", "Mismatch", "Abandoned"}
	allKinds    = []Kind{
		Configure, Join, Update, Grant, Move, Cancel, Reap, Decline, SetReady, Transfer, Reclaim, Release, Unavoid, Probe,
		"LEASE", "RENEW", "REVOKE", "TAKEOVER",
	}
)

// expect is what a script is about. It fails whether or not the trace is being rewritten.
func (g *stage) expect(w *words) {
	rest := strings.Join(w.rest, " ")
	check := func(got, want string) {
		if got != want {
			g.Errorf("%s: got %s", g.where, got)
		}
	}
	v := g.checks.view()
	switch verb := w.next(); verb {
	case "owner": // SHARD NAME|none: whose claim it is
		s, who := w.shard(), "none"
		if v.Claims[s].Rev != 0 {
			who = g.who(v.Claims[s].Lease)
		}
		check(who, w.nameOrNone())
	case "serving": // SHARD NAME|none: whose gate admits
		s, who := w.shard(), "none"
		for _, p := range g.procs {
			for _, t := range p.running {
				if t.shard == s && t.admits() {
					who = p.name
				}
			}
		}
		check(who, w.nameOrNone())
	case "epoch": // SHARD rises|stays
		s, want := w.shard(), w.next()
		if want != "rises" && want != "stays" {
			g.failf("an epoch that %s?", want)
		}
		got := "falls"
		switch now := g.checks.epochOf(s); {
		case now == g.epochs[s]:
			got = "stays"
		case now > g.epochs[s]:
			got = "rises"
		}
		check(got, want)
	case "move": // SHARD NAME|none: where it is ordered to
		s, to := w.shard(), "none"
		if mv, ok := v.Moves[s]; ok {
			to = g.who(mv.Lease)
		}
		check(to, w.nameOrNone())
	case "avoid": // SHARD NAME|none
		s, who := w.shard(), "none"
		for _, av := range v.Avoids[s] {
			who = g.who(av.Lease)
		}
		check(who, w.nameOrNone())
	case "planner": // NAME
		_, id, _ := v.Oldest()
		check(orNone(id), w.next())
	case "alive": // NAME
		if !w.process().up {
			check("gone", "alive")
		}
	case "loads": // LOW HIGH: what the members own
		low, high := w.number(), w.number()
		for id, m := range v.Members {
			if held := v.Held(m.Lease); held < low || held > high {
				g.Errorf("%s: %s owns %d", g.where, id, held)
			}
		}
	case "lineage": // SHARD N: of its epoch
		s := w.shard()
		check(strconv.Itoa(g.checks.epochOf(s).Lineage()), w.next())
	case "no": // FACT
		w.rest = nil
		g.expectFacts(strings.TrimPrefix(rest, "no "), 0)
	default: // FACT [N times], or FACT before FACT
		w.rest = nil
		g.expectHappened(rest)
	}
}

func (g *stage) expectHappened(text string) {
	if first, second, ok := strings.Cut(text, " before "); ok {
		i, j := slices.Index(g.facts, g.factOf(first)), slices.Index(g.facts, g.factOf(second))
		if i < 0 || j < 0 || i > j {
			g.Errorf("%s: it did not happen so: %q", g.where, g.facts)
		}
		return
	}
	words := strings.Fields(text)
	if n := len(words); n > 2 && words[n-1] == "times" {
		times, err := strconv.Atoi(words[n-2])
		if err != nil {
			g.failf("how many times?")
		}
		g.expectFacts(strings.Join(words[:n-2], " "), times)
		return
	}
	if fact := g.factOf(text); !slices.Contains(g.facts, fact) {
		g.Errorf("%s: it did not happen: %q", g.where, g.facts)
	}
}

func (g *stage) expectFacts(text string, want int) {
	fact, got := g.factOf(text), 0
	for _, f := range g.facts {
		if f == fact {
			got++
		}
	}
	if got != want {
		g.Errorf("%s: it happened %d times", g.where, got)
	}
}

// factOf is text, which has to be the form of a fact: NAME joins, NAME exits HOW, NAME KIND VERB, NAME SHARD VERB.
func (g *stage) factOf(text string) string {
	w := strings.Fields(text)
	form := fmt.Sprintf("no such fact: %q", text)
	if len(w) < 2 {
		g.failf("%s", form)
	}
	g.process(w[0])
	s, err := strconv.Atoi(w[1])
	switch {
	case len(w) == 2 && w[1] == "joins":
	case len(w) == 3 && w[1] == "exits" && slices.Contains(exitNames, w[2]):
	case len(w) == 3 && slices.Contains(allKinds, Kind(w[1])) && slices.Contains(kindVerbs, w[2]):
	case len(w) == 3 && err == nil && s < g.group.Shards && slices.Contains(tenureVerbs, w[2]):
	default:
		g.failf("%s", form)
	}
	return text
}

// nameOrNone is the name of a process, or none.
func (w *words) nameOrNone() string {
	name := w.next()
	if name != "none" {
		w.g.process(name)
	}
	return name
}
