package machine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// Margin is how long before the lease can expire a node stops to act as owner: a tenth of the TTL, at
// least 200 ms. It covers what no clock shows: the time between a gate's check and the write that it
// admitted, and drift between this machine's clock and the store's.
func Margin(ttl time.Duration) time.Duration { return max(ttl/10, 200*time.Millisecond) }

// RequestTimeout bounds one request to the store. A renewal that takes longer has failed, and there is time
// for another before trust ends.
func RequestTimeout(ttl time.Duration) time.Duration { return ttl / 3 }

const (
	retryAfter   = 200 * time.Millisecond // a refused or uncertain request is tried again
	mostRetry    = 2 * time.Second        // as the wait grows while a node can't join
	latchSlack   = 2 * time.Second        // beyond the time to prepare, before a leaving node stops its handlers itself
	drainPrepare = 5 * time.Second        // most time to prepare in a drain
	fullAgain    = 5 * time.Second        // a full store is tried again
	evictedPause = time.Second            // before a node with Takeover that lost its lease joins again
)

// membership is the node's lease, its member record and the trust that they give.
type membership struct {
	lease     cas.LeaseID
	ttl       time.Duration
	asking    bool          // GrantLease is under way
	former    cas.LeaseID   // the last one
	discarded []cas.LeaseID // given up, to be revoked before another is taken
	revoking  bool          // Revoke is under way
	retryAt   time.Duration
	failures  int // in a row, of what retryAt waits for

	created int64 // own record's create revision; 0: not joined
	joined  bool  // ever
	txn     uint64
	wait    int64 // act on the record again once the view is here

	left      int // claims under the lease when it was given up, leaving
	abandoned int // so many, and the revoke got no answer

	renewing bool
	renewAt  time.Duration
	acks     []ack         // renewals that the view has not reached
	trust    time.Duration // until then; 0: none

	other      int64         // create revision of the record that has our id
	otherUntil time.Duration // it has to be gone by then
	otherSure  bool          // past that time the store itself has said that it is there
	revoked    cas.LeaseID   // the one lease that Takeover may revoke
	tookOver   bool          // and it is gone
}

// ack is a renewal that the store has confirmed at revision rev. It counts once the view is there too: a
// node that can renew but not see is not fit to own.
type ack struct {
	rev   int64
	until time.Duration
}

func (m *Machine) trusted() bool { return m.member.trust > m.now }

// expireTrust ends all tenures once trust is over (I3).
func (m *Machine) expireTrust() {
	if m.member.trust != 0 && m.member.trust <= m.now {
		m.member.trust = 0
		m.loseAll("the lease could not be renewed in time")
	}
}

// countTrust extends trust by the renewals that the view has reached.
func (m *Machine) countTrust() {
	mb := &m.member
	if m.view == nil || len(mb.acks) == 0 {
		return
	}
	until := mb.trust
	mb.acks = slices.DeleteFunc(mb.acks, func(a ack) bool {
		if a.until <= m.now {
			return true
		}
		if a.rev > m.view.Rev {
			return false
		}
		until = max(until, a.until)
		return true
	})
	if until > mb.trust && mb.lease != 0 {
		if mb.trust == 0 {
			m.dirtyAll()
			m.replan()
		}
		mb.trust = until
		m.emit(Trust{Until: until})
	}
}

// steerMembership brings the lease and the member record to what they should be.
func (m *Machine) steerMembership() {
	mb := &m.member
	if mb.lease != 0 && !mb.renewing && m.now >= mb.renewAt {
		mb.renewing = true
		m.emit(Renew{Lease: mb.lease})
	}
	if m.view == nil || !m.checkConfig() {
		return
	}
	own, present := m.view.Members[m.c.Member.ID]
	if !present {
		mb.other = 0
	}
	waiting := mb.txn != 0 || m.view.Rev < mb.wait || m.now < mb.retryAt
	switch {
	case mb.lease != 0 && present && own.Lease == mb.lease:
		if mb.created != own.Created && m.heldBefore(own.Created) {
			// Of a record under this lease that was erased before it was seen: the planner may be about to reap them.
			m.giveUp("its lease holds claims that are older than the member record")
			m.takeLease()
			return
		}
		if mb.created != own.Created {
			mb.created, mb.joined, mb.other = own.Created, true, 0
			m.replan()
			m.emit(Joined{Created: own.Created})
		}
		if !waiting {
			m.updateRecord(own)
		}
	case mb.created != 0:
		// Somebody deleted or replaced the record while the lease lives. The claims under it are still there,
		// and must not outlive this node's membership.
		m.giveUp("the member record is gone")
		m.takeLease()
	case waiting:
	case mb.lease != 0 && !present:
		m.joinGroup()
	case present && len(mb.discarded) == 0:
		m.yieldTo(own)
	default:
		m.takeLease()
	}
}

// heldBefore: there is a claim under this node's lease from before rev.
func (m *Machine) heldBefore(rev int64) bool {
	return slices.ContainsFunc(m.view.Claims, func(c layout.ClaimState) bool {
		return c.Rev != 0 && c.Rev < rev && c.Lease == m.member.lease
	})
}

func (m *Machine) leaseGranted(ev LeaseGranted) {
	mb := &m.member
	mb.asking = false
	if errors.Is(ev.Err, cas.ErrDenied) && !mb.joined {
		m.exit(&Unusable{Err: fmt.Errorf("lease: %w", ev.Err)}, "the store refuses the permission")
		return
	}
	if ev.Err != nil {
		mb.retryAt = m.now + m.retryDelay()
		m.refused(ev.Err, "no lease")
		return
	}
	mb.lease, mb.ttl, mb.failures = ev.Lease.ID, ev.Lease.TTL, 0
	m.acknowledge(ev.Sent, ev.Lease)
}

func (m *Machine) renewed(ev Renewed) {
	mb := &m.member
	if ev.Lease.ID != mb.lease {
		return // of a lease given up since
	}
	mb.renewing = false
	switch {
	case errors.Is(ev.Err, cas.ErrLeaseNotFound):
		m.leaseGone()
	case ev.Err != nil:
		mb.renewAt = m.now + max(mb.ttl/20, retryAfter/2)
		m.refused(ev.Err, "renewal failed")
	default:
		m.acknowledge(ev.Sent, ev.Lease)
	}
}

// acknowledge counts from the moment the request was sent, with the TTL that the store granted.
func (m *Machine) acknowledge(sent time.Duration, l cas.Lease) {
	mb := &m.member
	mb.ttl = l.TTL
	mb.renewAt = sent + l.TTL/3
	mb.acks = append(mb.acks, ack{rev: l.Rev, until: sent + l.TTL - Margin(l.TTL)})
	m.await(l.Rev, 0)
}

func (m *Machine) revoke(lease cas.LeaseID) {
	m.member.revoking = true
	m.emit(Revoke{Lease: lease})
}

func (m *Machine) revoked(ev Revoked) {
	mb := &m.member
	mb.revoking = false
	if ev.Lease == mb.revoked && (ev.Err == nil || errors.Is(ev.Err, cas.ErrLeaseNotFound)) {
		mb.tookOver = true
	}
	if m.leaving && ev.Err != nil && !errors.Is(ev.Err, cas.ErrLeaseNotFound) {
		mb.abandoned = mb.left
	}
	if cas.OutcomeOf(ev.Err) == cas.Applied || errors.Is(ev.Err, cas.ErrLeaseNotFound) || m.leaving {
		// While leaving one try is enough: the lease ends by itself.
		mb.discarded = slices.DeleteFunc(mb.discarded, func(id cas.LeaseID) bool { return id == ev.Lease })
		return
	}
	mb.retryAt = m.now + m.retryDelay()
	m.refused(ev.Err, "revoking a lease failed")
}

// leaseGone: the store no longer knows the lease. What was under it is gone too.
func (m *Machine) leaseGone() {
	m.loseAll("the lease is gone")
	m.forgetLease()
	m.note(-1, nil, "the lease is gone; joining again")
}

// giveUp ends the membership although the lease may live. Own trust is zero before the revoke is sent.
func (m *Machine) giveUp(reason string) {
	m.loseAll(reason)
	m.member.discarded = append(m.member.discarded, m.member.lease)
	m.forgetLease()
}

func (m *Machine) forgetLease() {
	mb := &m.member
	if m.c.Takeover && mb.created != 0 {
		// A successor has perhaps evicted this process, and is about to join: don't get there before it.
		mb.retryAt = m.now + evictedPause
	}
	for _, sl := range m.slots {
		sl.failed = 0 // the avoid that stands for it goes with the lease
	}
	mb.former = mb.lease
	mb.lease, mb.created, mb.trust, mb.acks = 0, 0, 0, nil
	mb.renewing = false
	m.emit(Trust{})
}

// retryDelay grows while the store goes on to fail.
func (m *Machine) retryDelay() time.Duration {
	m.member.failures++
	return doubled(retryAfter, m.member.failures-1, mostRetry)
}

// refused reports a store's error that is worth telling and, when the store is full, holds drains back.
func (m *Machine) refused(err error, text string) {
	if errors.Is(err, cas.ErrNoSpace) {
		m.txns.fullUntil = m.now + fullAgain
		m.txns.holdUntil = m.now + 2*fullAgain
	}
	m.note(-1, err, text)
}

func (m *Machine) configCond() cas.Cond { return cas.AtRev(m.keys.Config(), m.view.Config.Rev) }

// next is when membership has something to do by itself.
func (mb *membership) next(m *Machine) time.Duration {
	next := m.after(0, mb.trust)
	if mb.lease != 0 && !mb.renewing {
		next = m.after(next, mb.renewAt)
	}
	next = m.after(next, mb.retryAt)
	if mb.created == 0 && mb.other != 0 {
		next = m.after(next, mb.otherUntil)
	}
	return next
}
