package machine

import "time"

// steerLeave brings a leaving node to its end: shards handed over by the planner's moves, as in any drain; what
// nobody takes, ended here; then the lease revoked, last of all.
func (m *Machine) steerLeave() {
	mb := &m.member
	if !m.leaving {
		return
	}
	if m.view == nil {
		m.exit(nil, "left") // the store was never reached
		return
	}
	if mb.created == 0 {
		// Not a member (any more): nothing to hand over, and no joining again. A lease asked for is awaited and
		// given back.
		if mb.lease != 0 && mb.txn == 0 {
			m.giveUp("leaving")
		}
		if mb.lease == 0 && !mb.asking && !mb.revoking && mb.txn == 0 && m.idle() {
			switch {
			case len(mb.discarded) > 0:
				m.revoke(mb.discarded[0])
			case mb.abandoned > 0:
				m.exit(&Abandoned{Shards: mb.abandoned}, "left")
			default:
				m.exit(nil, "left")
			}
		}
		return
	}
	if !m.latched && (m.now >= m.latchAt || !m.someoneElse()) {
		m.latched = true
		m.dirtyAll()
	}
	if !m.idle() || mb.txn != 0 {
		return
	}
	if m.view.Held(mb.lease) == 0 || m.latched && (m.now >= m.leaveBy() || !m.transferring()) {
		mb.left = m.view.Held(mb.lease)
		m.giveUp("left")
		if !mb.revoking {
			m.revoke(mb.discarded[0])
		}
	}
}

// leaveBy is when a latched node stops to wait for transfers. Handlers have returned by then, or were given up on.
func (m *Machine) leaveBy() time.Duration { return m.latchAt + m.c.DrainTimeout }

// someoneElse reports whether another member could take this node's shards.
func (m *Machine) someoneElse() bool {
	for id, other := range m.view.Members {
		if id != m.c.Member.ID && other.Eligible() {
			return true
		}
	}
	return false
}

// idle reports that no handler runs that is not given up on.
func (m *Machine) idle() bool { return m.running == 0 }

// transferring reports whether a shard is on its way to another member.
func (m *Machine) transferring() bool {
	if !m.trusted() {
		return false
	}
	for s, sl := range m.slots {
		if m.mine(s) && (sl.txn != 0 || m.moveAway(s)) {
			return true
		}
	}
	return false
}
