package machine

import "github.com/tenure-go/tenure/shard"

// steerShards looks at every shard that something has happened to.
func (m *Machine) steerShards() {
	if m.view == nil {
		m.dirty = m.dirty[:0]
		return
	}
	m.lighten()
	for {
		m.feed()
		m.dirty = sortedUnique(m.dirty)
		for _, s := range m.dirty {
			if m.concerned(s) {
				m.steerShard(s, m.slot(s))
			}
		}
		m.dirty = m.dirty[:0]
		m.flush()
		if len(m.txns.starved) == 0 || m.txns.shardOpen >= window {
			return
		}
	}
}

// concerned: this node has, had, or is to have something to do with s.
func (m *Machine) concerned(s int) bool {
	if m.slots[s] != nil || m.mine(s) {
		return true
	}
	lease := m.member.lease
	if mv, ok := m.view.Moves[s]; ok && lease != 0 && mv.Lease == lease {
		return true
	}
	return false
}

// steerShard does for s what brings it closer to what the view says. It changes at most one thing that
// another node can see.
func (m *Machine) steerShard(s int, sl *slot) {
	sl.wake = 0
	if m.overtaken(s, sl) {
		sl.txn = 0
	}
	claim := m.view.Claims[s]
	switch sl.phase {
	case starting, serving, closing, ending:
		if !m.mine(s) || claim.Rev != sl.rev {
			// Whatever renewals say (I1, I4). A handler that was already ended returns by itself, and its context
			// too ends now.
			m.lose(s, sl, "the claim is gone", nil)
		}
	}
	switch sl.phase {
	case starting, serving:
		m.steerServing(s, sl)
	case idle:
		m.steerIdle(s, sl)
	}
	m.steerPrepare(s, sl)
	m.steerAvoid(s, sl)
	if sl.until != 0 {
		m.wakeAt(sl, sl.until)
	}
}

// steerServing begins a hand-off where one is due.
func (m *Machine) steerServing(s int, sl *slot) {
	switch {
	case m.latched:
		m.close(s, sl)
	case m.view.Claims[s].Rev < m.view.Config.Rev:
		m.close(s, sl) // the lineage was raised: end, and claim again under the new one
	case m.moveAway(s):
		mv := m.view.Moves[s]
		if sl.moveOut != mv.Created {
			sl.moveOut, sl.moveSince = mv.Created, m.now
		}
		patience := sl.moveSince + m.prepareTimeout()
		if !mv.Ready && m.now < patience {
			m.wakeAt(sl, patience)
			return
		}
		if m.writable(s, sl) && m.turn(s, sl) {
			m.close(s, sl)
		}
	}
}

// steerIdle starts a handler for a claim of ours, or passes the claim on: the one way back from a hand-off that failed,
// an outage, and a handler's failure.
func (m *Machine) steerIdle(s int, sl *slot) {
	if !m.mine(s) || sl.txn != 0 || !m.trusted() {
		return
	}
	claim := m.view.Claims[s]
	if m.view.Rev < sl.wait {
		m.waiting = append(m.waiting, s)
		return
	}
	if m.now < sl.retryAt {
		m.wakeAt(sl, sl.retryAt)
		return
	}
	epoch := m.view.Epoch(claim.Rev)
	switch {
	case m.moveAway(s):
		// Also when the target is not ready: nobody serves here, so waiting for it gains nothing.
		sl.used = max(sl.used, epoch)
		mv := m.view.Moves[s]
		to, _ := m.view.MemberOf(mv.Lease)
		m.want(Transfer, to, s)
	case m.latched:
	case sl.failed >= failedStarts:
		sl.used = max(sl.used, epoch)
		m.want(Release, "", s)
	case m.now < sl.restAt:
		m.wakeAt(sl, sl.restAt)
	case epoch > sl.used:
		m.start(s, sl, epoch)
	case sl.hung.epoch != 0:
		m.want(Release, "", s) // this process may be stuck: let another try
	default:
		m.want(Reclaim, "", s)
	}
}

// start begins a tenure. The start rule (I4) is steerIdle's: a claim under the current lease, trust, an epoch above
// every one used or given away here, the old handler gone or given up on, and not latched.
func (m *Machine) start(s int, sl *slot, epoch shard.Epoch) {
	m.running++
	*sl = slot{
		phase: starting, epoch: epoch, rev: m.view.Claims[s].Rev, used: epoch,
		since: m.now, until: m.now + m.c.StartTimeout,
		failed: sl.failed, ended: sl.ended, why: sl.why, avoidUntil: sl.avoidUntil,
		prep: sl.prep, prepState: sl.prepState,
	}
	m.emit(Start{
		Token:    shard.Token{Group: m.c.Group.Name, GroupID: m.view.Config.ID, Shard: s, Epoch: epoch},
		Prepared: sl.prepState == prepReady,
	})
	if sl.prep != 0 && sl.prepState != prepReady {
		m.emit(Unprepare{Shard: s})
	}
	sl.prep, sl.prepState = 0, prepNone
}
