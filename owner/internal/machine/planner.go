package machine

import (
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
)

const (
	coalesce  = 2 * time.Millisecond // from a change to the plan, so that one plan serves a burst
	mostPause = 2 * time.Second      // most time between plans: one may have seemed long because the process was paused
	coldStart = 10                   // most settle times that the first grants wait
	moveSlack = 2 * time.Second      // beyond preparing and draining, before a move that stands still is cancelled
)

// planner is the duties of the oldest member (I7). What it remembers is only since when it has seen
// things, to be patient with them; the next planner starts counting anew.
type planner struct {
	oldest   string        // member that joined first
	at       time.Duration // a plan is due; 0: none
	underWay bool          // MakePlan is under way
	void     bool          // that one was begun in a former turn as planner, and what was so then may no longer be
	sent     time.Duration // when
	took     time.Duration // the last one
	wait     int64         // no new plan before the view is here: it must show what the last one did

	coldSince time.Duration        // a first eligible member was seen, while nothing is claimed
	joins     map[string]seen      // members
	orders    map[int]seen         // moves
	strays    map[cas.LeaseID]seen // leases with claims that are no member's
	queue     []plannerTxn         // of the last plan, not sent yet

	unowned    int           // shards that nobody could be given, in the last plan
	longestTTL time.Duration // of any member seen
}

// seen is since when a thing has been there, and which one.
type seen struct {
	created int64
	at      time.Duration
}

type plannerTxn struct {
	kind   Kind
	target string
	shards []int
}

func (p *planner) init() {
	p.joins = make(map[string]seen)
	p.orders = make(map[int]seen)
	p.strays = make(map[cas.LeaseID]seen)
}

// membersChanged notes who is there and who plans.
func (m *Machine) membersChanged() {
	_, m.plan.oldest, _ = m.view.Oldest()
	m.replan()
	for id, mb := range m.view.Members {
		if m.plan.joins[id].created != mb.Created {
			m.plan.joins[id] = seen{mb.Created, m.now}
		}
		m.plan.longestTTL = max(m.plan.longestTTL, time.Duration(mb.TTL)*time.Millisecond)
	}
	for id := range m.plan.joins {
		if _, ok := m.view.Members[id]; !ok {
			delete(m.plan.joins, id)
		}
	}
	for lease := range m.plan.strays {
		if _, ok := m.view.MemberOf(lease); ok {
			delete(m.plan.strays, lease) // should its record go again, the wait begins anew
		}
	}
}

// steerPlan does the planner's work, if it is this node's.
func (m *Machine) steerPlan() {
	if m.view == nil || !m.Planning() || !m.trusted() {
		m.plan.queue, m.plan.void = nil, m.plan.underWay // another may be at it by now
		return
	}
	m.sendPlan()
	if m.plan.underWay || m.txns.planOpen > 0 || len(m.plan.queue) > 0 || m.view.Rev < m.plan.wait {
		return
	}
	if m.plan.at == 0 || m.now < m.plan.at {
		return
	}
	m.plan.at = 0
	if m.clearAway() {
		return // the plan follows, on what is left
	}
	if m.coldWait() {
		return
	}
	m.plan.underWay, m.plan.sent = true, m.now
	m.emit(MakePlan{In: m.planInput()})
}

// clearAway cancels moves that stand still and reaps claims whose lease is no member's. True if it sent
// something.
func (m *Machine) clearAway() bool {
	patience := m.c.PrepareTimeout + m.c.DrainTimeout + moveSlack
	var stale []int
	for s, mv := range m.view.Moves {
		if m.plan.orders[s].created != mv.Created {
			m.plan.orders[s] = seen{mv.Created, m.now}
		}
		if at := m.plan.orders[s].at + patience; m.now >= at {
			stale = append(stale, s)
		} else {
			m.planAgain(at)
		}
	}
	for s := range m.plan.orders {
		if _, ok := m.view.Moves[s]; !ok {
			delete(m.plan.orders, s)
		}
	}
	m.enqueue(Cancel, "", sortedUnique(stale))

	var dead []int
	strays := m.view.Strays()
	for _, lease := range strays {
		if _, ok := m.plan.strays[lease]; !ok {
			m.plan.strays[lease] = seen{at: m.now}
		}
		// Whoever holds it may trust in it for its whole TTL, which is no longer known.
		ttl := max(m.c.TTL, m.plan.longestTTL)
		if at := m.plan.strays[lease].at + ttl + Margin(ttl); m.now < at {
			m.planAgain(at)
			continue
		}
		for s, c := range m.view.Claims {
			if c.Rev != 0 && c.Lease == lease {
				dead = append(dead, s)
			}
		}
	}
	for lease := range m.plan.strays {
		if !slices.Contains(strays, lease) {
			delete(m.plan.strays, lease)
		}
	}
	m.enqueue(Reap, "", sortedUnique(dead))
	m.sendPlan()
	return len(stale)+len(dead) > 0
}

// coldWait holds back a group's first grants until enough members are there and no more seem to come: otherwise the first
// would be given everything, and most of it moved at once. The wait is bounded, so that a
// crash-looper freezes nothing.
func (m *Machine) coldWait() bool {
	if m.view.Claimed() {
		m.plan.coldSince = 0
		return false
	}
	eligible := 0
	var last time.Duration
	for id, mb := range m.view.Members {
		if mb.Eligible() {
			eligible++
			last = max(last, m.plan.joins[id].at)
		}
	}
	if eligible == 0 {
		m.plan.coldSince = 0
		return false // the plan says so
	}
	if m.plan.coldSince == 0 {
		m.plan.coldSince = m.now
	}
	end := m.plan.coldSince + coldStart*m.c.Settle
	if settled := last + m.c.Settle; eligible >= m.c.MinMembers {
		end = min(end, settled)
	}
	if m.now < end {
		m.planAgain(end)
		return true
	}
	return false
}

// replan: what a plan is made from has changed. Plans of a large group take their time, and must leave
// most of it to other work.
func (m *Machine) replan() { m.planAgain(m.now + max(coalesce, min(4*m.plan.took, mostPause))) }

// planAgain has the planner look again at a time.
func (m *Machine) planAgain(at time.Duration) { m.plan.at = sooner(m.plan.at, at) }

func (p *planner) next(m *Machine) time.Duration {
	if !m.Planning() || !m.trusted() || p.underWay || m.txns.planOpen > 0 || len(p.queue) > 0 || m.view.Rev < p.wait {
		return 0
	}
	return p.at
}
