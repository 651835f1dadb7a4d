package machine

import (
	"maps"
	"slices"

	"github.com/tenure-go/tenure/internal/layout"
)

// clone is a machine in the same state, which shares nothing with m that a Step changes. TestClone holds it complete.
func (m *Machine) clone() *Machine {
	c := *m
	c.out = nil
	if m.view != nil {
		c.view = m.view.Clone()
	}
	c.touched = layout.Touched{}
	c.slots = make(map[int]*slot, len(m.slots))
	for s, sl := range m.slots {
		copied := *sl
		c.slots[s] = &copied
	}
	c.dirty, c.waiting = slices.Clone(m.dirty), slices.Clone(m.waiting)
	c.stagger = stagger{dark: slices.Clone(m.stagger.dark), queue: slices.Clone(m.stagger.queue)}

	c.member.discarded, c.member.acks = slices.Clone(m.member.discarded), slices.Clone(m.member.acks)

	c.plan.joins, c.plan.orders, c.plan.strays = maps.Clone(m.plan.joins), maps.Clone(m.plan.orders), maps.Clone(m.plan.strays)
	c.plan.queue = slices.Clone(m.plan.queue)

	c.txns.open = maps.Clone(m.txns.open)
	c.txns.intents, c.txns.starved, c.txns.probed = slices.Clone(m.txns.intents), slices.Clone(m.txns.starved), slices.Clone(m.txns.probed)
	return &c
}
