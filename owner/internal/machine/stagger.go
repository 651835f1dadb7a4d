package machine

import (
	"slices"
	"time"
)

// darkPatience is how long a hand-off counts among those under way. One that takes longer, because its handler flushes or
// a request inside is slow, must not hold up the others.
const darkPatience = 50 * time.Millisecond

// stagger has a node hand over a few shards at a time. All at once would queue up at the store and at the resource that their
// next owners seal, and each would be dark for as long as all of them take; in turns, each is for about as
// long as one takes, and the whole is done no later.
type stagger struct {
	dark  []darkShard // closed for a hand-off, not yet another's; first closed first
	queue []int       // shards that wait for their turn
}

type darkShard struct {
	shard int
	since time.Duration
}

// atOnce is how many shards are handed over at a time: a thirty-second of what the node holds, so that one that
// holds very many still leaves in time.
func (m *Machine) atOnce() int { return max(2, m.view.Held(m.member.lease)/32) }

// lighten forgets the shards that are not dark any more: once a step, since those that wait for them may be thousands.
func (m *Machine) lighten() {
	g := &m.stagger
	g.dark = slices.DeleteFunc(g.dark, func(d darkShard) bool { return m.now >= d.since+darkPatience || !m.passing(d.shard) })
}

// turn reports whether it is s's turn to be closed for a hand-off. If not, s is looked at again when it may be.
func (m *Machine) turn(s int, sl *slot) bool {
	g := &m.stagger
	if len(g.dark) < m.atOnce() {
		g.dark = append(g.dark, darkShard{s, m.now})
		return true
	}
	g.queue = append(g.queue, s)
	m.wakeAt(sl, g.dark[0].since+darkPatience)
	return false
}

// passing: s is this node's still, and closed.
func (m *Machine) passing(s int) bool {
	sl := m.slots[s]
	return m.mine(s) && sl.phase != serving && sl.phase != starting
}

// nextTurn has those that wait look again once a shard has become another's.
func (m *Machine) nextTurn() {
	g := &m.stagger
	if len(g.queue) == 0 || !slices.ContainsFunc(g.dark, func(d darkShard) bool { return !m.passing(d.shard) }) {
		return
	}
	m.dirty = append(m.dirty, g.queue...)
	g.queue = g.queue[:0]
}
