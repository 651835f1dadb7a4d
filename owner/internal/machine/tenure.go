package machine

import "time"

func (m *Machine) ready(ev Ready) {
	sl := m.slots[ev.Shard]
	if sl == nil || sl.epoch != ev.Epoch || sl.phase != starting {
		return
	}
	sl.phase, sl.since, sl.until = serving, m.now, 0
	sl.failed = 0
	m.emit(Open{Shard: ev.Shard, Epoch: ev.Epoch})
	m.dirty = append(m.dirty, ev.Shard)
}

// close closes admission for good (I5). What is inside has DrainTimeout, handler and flush included.
func (m *Machine) close(s int, sl *slot) {
	sl.phase, sl.since, sl.until = closing, m.now, m.now+m.c.DrainTimeout
	m.emit(Close{Shard: s, Epoch: sl.epoch})
}

func (m *Machine) drained(ev Drained) {
	sl := m.slots[ev.Shard]
	switch {
	case sl == nil:
		return
	case ev.Epoch == sl.hung.epoch:
		sl.hung.drained = true
		m.revive(ev.Shard, sl)
		return
	case sl.epoch != ev.Epoch || sl.phase == idle:
		return
	}
	sl.drained = true
	if sl.phase == closing {
		sl.phase = ending
		m.emit(End{Shard: ev.Shard, Epoch: ev.Epoch})
	}
	m.finish(ev.Shard, sl)
}

func (m *Machine) returned(ev Returned) {
	sl := m.slots[ev.Shard]
	switch {
	case sl == nil:
		return
	case ev.Epoch == sl.hung.epoch:
		sl.hung.returned = true
		m.revive(ev.Shard, sl)
		return
	case sl.epoch != ev.Epoch || sl.phase == idle:
		return
	}
	sl.returned, sl.err = true, ev.Err
	if sl.phase == starting || sl.phase == serving {
		reason := "the handler returned before its context had ended"
		if sl.phase == starting {
			reason = "the handler returned before it was ready"
		}
		m.lose(ev.Shard, sl, reason, ev.Err)
	}
	m.finish(ev.Shard, sl)
}

// GaveUp begins the reason of a tenure that its user gave up.
const GaveUp = "it was given up: "

func (m *Machine) failed(ev Failed) {
	sl := m.slots[ev.Shard]
	if sl == nil || sl.epoch != ev.Epoch || sl.phase != starting && sl.phase != serving {
		return
	}
	sl.blamed = true
	m.lose(ev.Shard, sl, GaveUp+ev.Err.Error(), ev.Err)
}

// revive forgets a tenure that was given up on, once nothing of it runs any more.
func (m *Machine) revive(s int, sl *slot) {
	if sl.hung.returned && sl.hung.drained {
		sl.hung = hung{}
		m.dirty = append(m.dirty, s)
	}
}

// lose ends a tenure otherwise than by hand-off. The handler still has to return before the shard can start here
// again; other nodes don't wait for it, and need not if a fence stands behind it (I6).
func (m *Machine) lose(s int, sl *slot, reason string, err error) {
	if sl.phase == idle || sl.lost {
		return
	}
	failed := (sl.phase == starting || sl.phase == serving) && (sl.returned || sl.blamed)
	if failed {
		// The handler's own doing, and not the store's or another node's.
		if sl.phase == starting {
			sl.failed++
		} else if m.now-sl.since >= steady {
			sl.ended = 0
		}
		m.backOff(sl, reason, err)
	}
	if sl.until == 0 || sl.phase == starting {
		sl.until = m.now + m.c.DrainTimeout
	}
	sl.phase, sl.since, sl.lost = ending, m.now, true
	m.wakeAt(sl, sl.until)
	m.emit(Lose{Shard: s, Epoch: sl.epoch, Reason: reason, Failed: failed, Err: err})
}

func (m *Machine) backOff(sl *slot, reason string, err error) {
	sl.restAt = m.now + doubled(firstBackoff, sl.ended, mostBackoff)
	sl.ended++
	sl.why = reason
	if err != nil {
		sl.why = err.Error()
	}
}

// doubled is first, n times doubled, at most most.
func doubled(first time.Duration, n int, most time.Duration) time.Duration {
	return min(first<<min(n, 20), most)
}

// loseAll ends every tenure.
func (m *Machine) loseAll(reason string) {
	var held []int
	for s, sl := range m.slots {
		if sl.phase != idle {
			held = append(held, s)
		}
	}
	for _, s := range sortedUnique(held) {
		m.lose(s, m.slots[s], reason, nil)
	}
}

// finish ends the tenure once nothing of it runs.
func (m *Machine) finish(s int, sl *slot) {
	if sl.phase != ending || !sl.returned || !sl.drained {
		return
	}
	m.emit(Finish{Shard: s, Epoch: sl.epoch, Err: sl.err})
	m.rest(s, sl)
}

func (m *Machine) rest(s int, sl *slot) {
	sl.phase, sl.since, sl.until = idle, m.now, 0
	m.running--
	sl.lost, sl.blamed, sl.returned, sl.drained, sl.err = false, false, false, false, nil
	m.dirty = append(m.dirty, s)
}

// wakeShards looks at the slots whose time has come.
func (m *Machine) wakeShards() {
	m.wake = 0
	for s, sl := range m.slots {
		if sl.wake == 0 {
			continue
		}
		if sl.wake > m.now {
			m.wake = sooner(m.wake, sl.wake)
			continue
		}
		m.dirty = append(m.dirty, s)
	}
	m.dirty = sortedUnique(m.dirty)
	for _, s := range m.dirty {
		if sl := m.slots[s]; sl != nil && sl.until != 0 && m.now >= sl.until {
			m.overdue(s, sl)
		}
	}
}

// overdue: the phase has taken too long.
func (m *Machine) overdue(s int, sl *slot) {
	sl.until = 0
	switch sl.phase {
	case starting:
		sl.blamed = true
		m.lose(s, sl, "the handler did not call Ready within StartTimeout", nil)
	case closing, ending:
		m.emit(Overdue{Shard: s, Epoch: sl.epoch, Forced: !m.c.NeverForce})
		sl.phase, sl.lost = ending, true // its contexts have ended
		if m.c.NeverForce {
			return // its shard stays with it till it returns
		}
		sl.hung = hung{epoch: sl.epoch, returned: sl.returned, drained: sl.drained}
		sl.why = "the handler did not return within DrainTimeout"
		m.rest(s, sl)
	}
}

// wakeAt has the slot looked at at a time.
func (m *Machine) wakeAt(sl *slot, at time.Duration) {
	sl.wake = sooner(sl.wake, at)
	m.wake = sooner(m.wake, at)
}

// wakeWaiting looks at the slots that the view has caught up with.
func (m *Machine) wakeWaiting() {
	keep := m.waiting[:0]
	for _, s := range m.waiting {
		if m.view.Rev >= m.slots[s].wait {
			m.dirty = append(m.dirty, s)
		} else {
			keep = append(keep, s)
		}
	}
	m.waiting = sortedUnique(keep)
}

func (m *Machine) prepareTimeout() time.Duration {
	if m.draining() {
		return min(m.c.PrepareTimeout, drainPrepare)
	}
	return m.c.PrepareTimeout
}
