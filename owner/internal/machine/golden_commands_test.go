package machine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// command does what a line of a script says. One that makes no sense where it stands fails the test.
func (g *stage) command(line string) {
	w := &words{g: g, rest: strings.Fields(line)}
	switch verb := w.next(); verb {
	case "quietly": // what it tells is not what the script is about
		g.quiet = true
		g.command(strings.TrimPrefix(line, "quietly "))
		g.quiet = false
		g.began, g.last = g.now, g.now
		return
	case "shards": // of the group: 1 unless said
		if len(g.procs) > 0 {
			g.failf("the group has begun")
		}
		g.shards(w.number())
	case "boot": // NAME [as ID] [prepares] [takeover] [neverforce] [weight N] [min N]: a process starts
		g.bootFrom(w)
	case "given": // the same, one after another, each of them settled: where a script begins
		g.given(strings.TrimPrefix(line, "given "))
		return
	case "run": // all that is in flight arrives; then [DURATION] passes, 10ms unless said; or [until TEXT is told]
		d, until := 10*time.Millisecond, ""
		if len(w.rest) > 0 && w.rest[0] != "until" {
			d = w.duration()
		}
		if len(w.rest) > 0 {
			w.want("until")
			until = w.text()
		}
		g.run(d, until)
	case "show": // renewals: tell them too
		w.want("renewals")
		g.renewals = true
	case "state": // the store, and what each process does
		g.tellState()
	case "loads": // how many members own how many shards
		g.tellLoads()
	case "hold", "release", "lose", "drop": // a kind of message
		g.flight(verb, strings.Join(w.rest, " "))
		return
	case "store", "operator":
		g.storeCommand(verb, w)
	case "request", "write":
		g.requestCommand(verb, w)
	default:
		g.processCommand(verb, w)
	}
	if len(w.rest) > 0 {
		g.failf("what is %q?", w.rest)
	}
}

func (g *stage) bootFrom(w *words) *process {
	name := w.next()
	if slices.ContainsFunc(g.procs, func(p *process) bool { return p.name == name }) {
		g.failf("there is a process %s", name)
	}
	c := Config{Member: layout.Member{Member: shard.Member{ID: name, Weight: 1}}, MinMembers: 1}
	for len(w.rest) > 0 {
		switch opt := w.next(); opt {
		case "as":
			c.Member.ID = w.next()
		case "prepares":
			c.Member.Prepares = true
		case "takeover":
			c.Takeover = true
		case "neverforce":
			c.NeverForce = true
		case "weight":
			c.Member.Weight = w.number()
		case "min":
			c.MinMembers = w.number()
		default:
			g.failf("a process that %s?", opt)
		}
	}
	return g.boot(name, c)
}

func (g *stage) given(list string) {
	quiet := g.quiet
	g.quiet = true
	for one := range strings.SplitSeq(list, ", ") {
		g.bootFrom(&words{g: g, rest: strings.Fields(one)})
		g.run(2*time.Second, "")
	}
	g.quiet = quiet
	g.began, g.last = g.now, g.now
	g.since()
	g.tellState()
}

// flight holds, lets go or loses messages of a name: all from now on, or the "next" one. "lose" is always for the next one.
func (g *stage) flight(verb, name string) {
	name, next := strings.CutPrefix(name, "next ")
	form := strings.Fields(name)
	kinds := map[string]int{"request": 3, "reply": 3, "watch": 2, "plan": 2, "prepared": 3, "ready": 3, "drained": 3, "return": 3}
	if len(form) == 0 || kinds[form[0]] != len(form) {
		g.failf("no kind of message: %q", name)
	}
	g.process(form[1])
	switch h := g.holds[name]; verb {
	case "hold":
		if h != nil && h.on {
			g.failf("it is held already")
		}
		g.holds[name] = &hold{on: true, next: next}
	case "release":
		if h == nil || !h.on || !slices.ContainsFunc(g.queue, func(m *message) bool { return m.name == name }) {
			g.failf("none is held")
		}
		h.on = false
	case "lose":
		if form[0] != "request" && form[0] != "reply" && form[0] != "watch" {
			g.failf("nothing gets lost within a process")
		}
		g.losses[name]++
	case "drop": // an event that the watch does not bring, though it goes on
		if form[0] != "watch" {
			g.failf("only a watch does that")
		}
		g.drops[name]++
	}
}

// processCommand is what happens to, or in, one process.
func (g *stage) processCommand(verb string, w *words) {
	if verb == "expect" {
		g.expect(w)
		return
	}
	p := w.process()
	if !p.up {
		g.failf("%s is no more", p.name)
	}
	set := func(flag *bool, to bool, text string) {
		if *flag == to {
			g.failf("it is so already")
		}
		*flag = to
		if text != "" {
			g.tell("%s: %s", p.name, text)
		}
	}
	switch verb {
	case "pause": // it stops; what is sent to it waits
		set(&p.paused, true, "is stopped")
	case "continue":
		set(&p.paused, false, "goes on")
	case "cut": // nothing gets through between it and the store
		set(&p.cut, true, "is cut off from the store")
	case "heal":
		set(&p.cut, false, "reaches the store again")
	case "crash":
		g.tell("%s: crashes", p.name)
		p.stop()
	case "leave": // the user wants it to stop
		set(&p.leaving, true, "")
		p.step(Leave{})
	case "break": // STEP SHARD ERROR: start, prepare or flush fails from now on
		step := w.step()
		p.broken[step] = w.text()
	case "mend":
		step := w.step()
		if _, ok := p.broken[step]; !ok {
			g.failf("that works")
		}
		delete(p.broken, step)
	case "return": // SHARD [ERROR]: the handler returns on its own
		t := w.tenure(p)
		var err error
		if len(w.rest) > 0 {
			err = errors.New(w.text())
		}
		if t.returned {
			g.failf("it has returned")
		}
		t.leave(err)
	case "fail": // SHARD ERROR: the user gives the tenure up
		t := w.tenure(p)
		p.step(Failed{Shard: t.shard, Epoch: t.epoch, Err: errors.New(w.text())})
		t.shut()
	default:
		g.failf("no such command")
	}
}

// requestCommand is a request of a user's, or a write of a handler's or a request's to the resource, which has a fence.
func (g *stage) requestCommand(verb string, w *words) {
	if verb == "write" { // NAME SHARD: by what runs there, whatever the gate says
		p := w.process()
		t := w.tenure(p)
		g.tellWrite(t)
		return
	}
	switch at := w.next(); at {
	case "in": // NAME SHARD: one comes and stays inside
		p := w.process()
		t := w.tenure(p)
		if !t.admits() {
			g.failf("it is not admitted")
		}
		t.inside++
		g.tell("%s: a request enters %d", p.name, t.shard)
	case "out":
		p := w.process()
		t := w.tenure(p)
		if t.inside == 0 {
			g.failf("none is inside")
		}
		t.inside--
		g.tell("%s: the request leaves %d", p.name, t.shard)
		t.empty()
	default: // SHARD: one knocks at each node that has a handler of it
		s := g.shardNumber(at)
		asked := false
		defer func() {
			if !asked {
				g.tell("nobody takes a request to %d", s)
			}
		}()
		for _, p := range g.procs {
			for _, t := range p.running {
				if t.shard != s || p.paused {
					continue
				}
				asked = true
				if t.admits() {
					g.tellWrite(t)
				} else {
					g.tell("%s: refuses a request to %d: %s", p.name, s, t.refusal())
				}
			}
		}
	}
}

// refusal says why the gate admits nobody.
func (t *stageTenure) refusal() string {
	switch {
	case t.closed:
		return "the gate is closed"
	case !t.open:
		return "not ready"
	}
	return "trust is over"
}

func (g *stage) tellWrite(t *stageTenure) {
	if g.checks.write(t) {
		g.tell("%s: writes to %d under %v", t.of.name, t.shard, t.epoch)
		g.fact("%s %d writes", t.of.name, t.shard)
		return
	}
	g.tell("%s: a write to %d under %v is refused: the fence is at %v", t.of.name, t.shard, t.epoch, g.checks.sealed[t.shard])
	g.fact("%s %d fenced", t.of.name, t.shard)
}
