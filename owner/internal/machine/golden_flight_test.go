package machine

import (
	"slices"
	"time"
)

// hold keeps messages of a name in flight.
type hold struct {
	on, ever bool     // ever: it has held one
	next     bool     // only the next one
	only     *message // and that is it
}

// takes reports whether m stays in flight.
func (h *hold) takes(m *message) bool {
	if h == nil || !h.on {
		return false
	}
	if h.next && h.only == nil {
		h.only = m
	}
	return !h.next || h.only == m
}

// message is in flight. Its name is how a script speaks of it: "request a TRANSFER", "reply a TRANSFER", "watch a" are between
// a process and the store; "ready a 0", "plan a" and the like are within a process.
type message struct {
	name   string
	of     *process
	way    way
	arrive func()
	lost   func()    // the sender learns that the connection broke
	q      *question // that it asks or answers
}

type way uint8

const (
	inside  way = iota // within the process
	toStore            // a request
	toNode             // a reply, or what the watch brings
)

// question is a request to the store that is answered once, however that comes about.
type question struct {
	name     string
	deadline time.Duration
	answered bool
	timedOut func()
}

// deliver delivers the first message that is free to go, if there is one.
func (g *stage) deliver() bool {
	for i := 0; i < len(g.queue); i++ {
		m := g.queue[i]
		if m.way != toStore && !m.of.up || m.q != nil && m.q.answered && (m.way == toNode || g.blocked(m)) {
			g.queue = slices.Delete(g.queue, i, i+1)
			i--
			continue
		}
		if h := g.holds[m.name]; h.takes(m) {
			if !h.ever {
				h.ever = true
				g.tell("held: %s", m.name)
			}
			continue
		}
		if g.blocked(m) || m.way != toStore && m.of.paused {
			continue
		}
		g.queue = slices.Delete(g.queue, i, i+1)
		if g.drops[m.name] > 0 {
			g.drops[m.name]--
			g.tell("dropped: %s", m.name)
			return true
		}
		if g.losses[m.name] > 0 {
			g.losses[m.name]--
			g.tell("lost: %s", m.name)
			m.lost()
			return true
		}
		m.arrive()
		return true
	}
	return false
}

// blocked: the message can't get through between the process and the store.
func (g *stage) blocked(m *message) bool { return m.way != inside && (g.down || m.of.cut) }

// send puts a message into flight.
func (g *stage) send(m *message) { g.queue = append(g.queue, m) }
