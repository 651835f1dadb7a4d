package machine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// words are those of a command that have not been read.
type words struct {
	g    *stage
	rest []string
}

func (w *words) next() string {
	if len(w.rest) == 0 {
		w.g.failf("a word is missing")
	}
	first := w.rest[0]
	w.rest = w.rest[1:]
	return first
}

func (w *words) want(word string) {
	if got := w.next(); got != word {
		w.g.failf("want %q, not %q", word, got)
	}
}

func (w *words) text() string {
	text := strings.Trim(strings.Join(w.rest, " "), `"`)
	w.rest = nil
	if text == "" {
		w.g.failf("a reason is missing")
	}
	return text
}

func (w *words) number() int {
	word := w.next()
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 {
		w.g.failf("want a number, not %q", word)
	}
	return n
}

func (w *words) duration() time.Duration {
	word := w.next()
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 {
		w.g.failf("want a time, not %q", word)
	}
	return d
}

func (w *words) shard() int { return w.g.shardNumber(w.next()) }

func (g *stage) shardNumber(word string) int {
	s, err := strconv.Atoi(word)
	if err != nil || s < 0 || s >= g.group.Shards {
		g.failf("want a shard, not %q", word)
	}
	return s
}

func (w *words) process() *process { return w.g.process(w.next()) }

func (g *stage) process(name string) *process {
	for _, p := range g.procs {
		if p.name == name {
			return p
		}
	}
	g.failf("there is no process %q", name)
	return nil
}

// step is a handler's step and its shard.
func (w *words) step() string {
	step := w.next()
	if step != "start" && step != "prepare" && step != "flush" {
		w.g.failf("no step of a handler: %q", step)
	}
	return fmt.Sprintf("%s %d", step, w.shard())
}

// tenure is the one of p and the shard that comes next of which something runs, the oldest if there are two.
func (w *words) tenure(p *process) *stageTenure {
	s := w.shard()
	for _, t := range p.running {
		if t.shard == s {
			return t
		}
	}
	w.g.failf("nothing of %d runs on %s", s, p.name)
	return nil
}

// lastLease is the one under which p is, or was last, a member.
func (p *process) lastLease() cas.LeaseID {
	if len(p.leases) == 0 {
		p.failf("%s never had a lease", p.name)
	}
	return p.leases[len(p.leases)-1]
}
