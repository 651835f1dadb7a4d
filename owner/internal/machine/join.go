package machine

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// checkConfig makes the group's config if there is none, and reports whether it is there and ours.
func (m *Machine) checkConfig() bool {
	found := m.view.Config
	want := m.c.Group
	switch {
	case found.Rev == 0 && m.member.created != 0:
		// Deleted under a living group. The next join makes a new one, with another group id, which every fence
		// would refuse: so don't.
		m.exit(&Unusable{Err: errors.New("the group's config was deleted")}, "the group's config was deleted")
	case found.Rev == 0:
		if m.member.txn == 0 && m.now >= m.member.retryAt && m.view.Rev >= m.member.wait {
			m.member.txn = m.commit(Configure, nil, cas.Txn{
				If: []cas.Cond{cas.Absent(m.keys.Config())},
				Then: []cas.Op{cas.Put(m.keys.Config(), layout.Encode(layout.Config{
					Format: layout.Format, ID: m.c.GroupID, Shards: want.Shards, Hash: want.Hash,
				}))},
			})
		}
	case errors.Is(found.Err, layout.ErrFormat):
		m.exit(&Mismatch{"format", strconv.Itoa(layout.Format), "newer"}, "the group's config has a newer format")
	case found.Err != nil:
		m.exit(&Unusable{Err: fmt.Errorf("the group's config can't be read: %w", found.Err)}, "the group's config can't be read")
	case found.Shards != want.Shards:
		m.exit(&Mismatch{"shards", strconv.Itoa(want.Shards), strconv.Itoa(found.Shards)}, "the number of shards differs")
	case found.Lineage < m.lineage:
		// Every epoch from here on would be below those in use, and no claim of any use (I2).
		m.exit(&Unusable{Err: fmt.Errorf("the group's lineage was lowered from %d to %d: raise it above the former", m.lineage, found.Lineage)},
			"the lineage was lowered")
	case found.Hash != want.Hash:
		m.exit(&Mismatch{"hash", string(want.Hash), string(found.Hash)}, "the hash differs")
	case m.groupID != "" && found.ID != m.groupID:
		// Every fence would refuse the new id's tokens.
		m.exit(&Unusable{Err: fmt.Errorf("the group's id was changed from %q to %q: start the nodes again if that is meant", m.groupID, found.ID)},
			"the group's id was changed")
	default:
		m.lineage, m.groupID = found.Lineage, found.ID
		return true
	}
	return false
}

// joinGroup puts the member record under the lease.
func (m *Machine) joinGroup() {
	if m.leaving {
		m.giveUp("leaving before it joined")
		return
	}
	key := m.keys.Member(m.c.Member.ID)
	if rev, ok := m.view.Corpses[m.c.Member.ID]; ok {
		// Under no lease, so it would never go. Put over it, the record would keep the corpse's creation, and this node
		// be older than members that were here before: two planners, of which neither's transactions fail (I7).
		m.member.txn = m.commit(Join, nil, cas.Txn{
			If:   []cas.Cond{cas.AtRev(key, rev), m.configCond()},
			Then: []cas.Op{cas.Delete(key)},
		})
		return
	}
	m.member.txn = m.commit(Join, nil, cas.Txn{
		If:   []cas.Cond{cas.Absent(key), m.configCond()},
		Then: []cas.Op{cas.PutLeased(key, layout.Encode(m.wanted()), m.member.lease)},
	})
}

// updateRecord has the record say what is wanted.
func (m *Machine) updateRecord(own layout.MemberState) {
	want := m.wanted()
	if own.Err == nil && own.Draining == want.Draining {
		return // nothing else changes while a process lives
	}
	key := m.keys.Member(m.c.Member.ID)
	m.member.txn = m.commit(Update, nil, cas.Txn{
		If:   []cas.Cond{cas.CreatedAt(key, own.Created), cas.AtRev(key, own.Rev)},
		Then: []cas.Op{cas.PutLeased(key, layout.Encode(want), m.member.lease)},
	})
}

func (m *Machine) wanted() layout.Member {
	want := m.c.Member
	want.Draining = m.draining()
	return want
}

// draining: this node gives all its shards away.
func (m *Machine) draining() bool {
	return m.leaving || m.view != nil && m.view.Drains[m.c.Member.ID]
}

// yieldTo waits for the other holder of our id to go. Only a process that has never been a member may revoke
// it, and only that one lease: otherwise two processes of one id would evict each other for ever.
func (m *Machine) yieldTo(other layout.MemberState) {
	mb := &m.member
	if m.leaving {
		return
	}
	if mb.other != other.Created {
		mb.other, mb.otherSure = other.Created, false
		ttl := max(m.c.TTL, time.Duration(other.TTL)*time.Millisecond)
		mb.otherUntil = m.now + 2*ttl
		if other.Lease != mb.former {
			m.note(-1, nil, "waiting for the member that has this id to go")
		}
	}
	if m.c.Takeover && !mb.joined && !mb.tookOver && (mb.revoked == 0 || mb.revoked == other.Lease) && other.Lease != 0 {
		if !mb.revoking {
			mb.revoked = other.Lease
			m.revoke(other.Lease)
		}
		return
	}
	switch {
	case m.now < mb.otherUntil:
	case mb.otherSure:
		taken := other.Member.Member
		taken.ID = m.c.Member.ID
		m.exit(&Taken{Other: taken}, "the id is taken")
	case mb.lease == 0:
		m.takeLease()
	default:
		// The view may be old, the more so after a pause or an outage that this wait went by in. A refused JOIN is not.
		m.joinGroup()
	}
}

// takeLease asks for a lease, once every one that was given up is gone: what is under an old one
// would otherwise look like another node's.
func (m *Machine) takeLease() {
	mb := &m.member
	switch {
	case mb.revoking || mb.asking:
	case len(mb.discarded) > 0:
		m.revoke(mb.discarded[0])
	case !m.leaving:
		mb.asking = true
		m.emit(GrantLease{TTL: m.c.TTL})
	}
}
