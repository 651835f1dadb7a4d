package machine

// steerAvoid takes an avoid of ours away when its back-off has ended.
func (m *Machine) steerAvoid(s int, sl *slot) {
	av, ok := m.view.Avoids[s][m.c.Member.ID]
	if !ok || av.Lease != m.member.lease || m.member.lease == 0 {
		sl.avoidUntil = 0 // the next one has a time of its own
		return
	}
	if sl.avoidUntil == 0 {
		sl.avoidUntil = m.now + sl.avoidFor()
	}
	switch {
	case m.now < sl.avoidUntil:
		m.wakeAt(sl, sl.avoidUntil)
	case sl.txn != 0:
	case m.view.Rev < sl.wait:
		m.waiting = append(m.waiting, s)
	case m.now < sl.retryAt:
		m.wakeAt(sl, sl.retryAt)
	default:
		sl.failed = 0
		m.want(Unavoid, "", s)
	}
}

// steerPrepare warms up for a move to this node.
func (m *Machine) steerPrepare(s int, sl *slot) {
	mv, ok := m.view.Moves[s]
	coming := ok && m.member.lease != 0 && mv.Lease == m.member.lease && !m.mine(s)
	if !coming || mv.Created != sl.prep {
		if sl.prep != 0 && !(m.mine(s) && sl.phase == idle) {
			m.emit(Unprepare{Shard: s})
			sl.prep, sl.prepState = 0, prepNone
		}
	}
	if !coming || mv.Ready || sl.phase != idle {
		return
	}
	if sl.prep != mv.Created {
		sl.prep, sl.prepState = mv.Created, prepReady // nothing to prepare: ready at once
		if m.c.Member.Prepares {
			sl.prepState = preparing
			m.emit(Prepare{Shard: s, Move: mv.Created})
		}
	}
	if sl.txn != 0 {
		return
	}
	if m.view.Rev < sl.wait {
		m.waiting = append(m.waiting, s)
		return
	}
	if m.now < sl.retryAt {
		m.wakeAt(sl, sl.retryAt)
		return
	}
	switch sl.prepState {
	case prepReady:
		m.want(SetReady, "", s)
	case prepFailed:
		m.want(Decline, "", s)
	}
}

func (m *Machine) prepared(ev Prepared) {
	sl := m.slots[ev.Shard]
	if sl == nil || sl.prep != ev.Move || sl.prepState != preparing {
		return
	}
	sl.prepState = prepReady
	if ev.Err != nil {
		sl.prepState = prepFailed
		sl.why = "prepare: " + ev.Err.Error()
	}
	m.dirty = append(m.dirty, ev.Shard)
}
