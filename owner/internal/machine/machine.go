package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// Config is what a node is and how patient it is. All fields are required but those said to be optional.
type Config struct {
	Group    shard.Group   // valid, defaults applied
	GroupID  string        // random: becomes the group's if this node is its first
	Member   layout.Member // this node's record but Format and Draining
	Takeover bool          // optional

	TTL            time.Duration
	StartTimeout   time.Duration
	PrepareTimeout time.Duration
	DrainTimeout   time.Duration
	NeverForce     bool // optional
	MinMembers     int
	Settle         time.Duration
}

// Machine is one node's part in the protocol. Make it with New.
type Machine struct {
	c    Config
	keys layout.Keys
	now  time.Duration
	out  []Effect

	view    *layout.View
	lineage int    // highest seen
	groupID string // the config's, as first seen
	touched layout.Touched
	head    int64         // highest revision that the store is known to have reached
	behind  int64         // revision that something waits for the view to reach
	askAt   time.Duration // while behind: ask the watch for progress again

	member  membership
	plan    planner
	slots   map[int]*slot
	running int           // slots that are not idle
	dirty   []int         // shards to look at in this step
	waiting []int         // shards to look at once the view has come further
	wake    time.Duration // no slot has to be looked at before; 0: none at all
	txns    transactions
	stagger stagger

	leaving bool
	latchAt time.Duration // while leaving: then no handler is started any more
	latched bool
	ended   bool
}

// New returns the machine of a node that has not joined yet.
func New(c Config) *Machine {
	c.Member.Format = layout.Format
	c.Member.TTL = c.TTL.Milliseconds()
	m := &Machine{
		c:     c,
		keys:  layout.For(c.Group),
		slots: make(map[int]*slot),
	}
	m.txns.init()
	m.plan.init()
	return m
}

// View is the machine's picture of the store, to be read between Steps, or nil before the first list.
func (m *Machine) View() *layout.View { return m.view }

// Touched is what the last Step's Watched changed in View.
func (m *Machine) Touched() *layout.Touched { return &m.touched }

// Lease is the node's lease; 0: none.
func (m *Machine) Lease() cas.LeaseID { return m.member.lease }

// Planning reports whether this node is the planner.
func (m *Machine) Planning() bool { return m.member.created != 0 && m.plan.oldest == m.c.Member.ID }

// Step takes one event at the time now, and returns what to do, in order. The slice is good until the
// next Step.
func (m *Machine) Step(now time.Duration, ev Event) []Effect {
	clear(m.out)
	m.out = m.out[:0]
	if m.ended {
		return nil
	}
	m.now = max(m.now, now)
	// Before the event: a reply that comes after trust has ended must revive nothing (I3).
	m.expireTrust()
	if m.wake != 0 && m.now >= m.wake {
		m.wakeShards()
	}
	m.take(ev)
	if m.ended {
		return m.out
	}
	m.countTrust()
	m.seek()
	m.steerMembership()
	if m.ended {
		return m.out
	}
	m.steerLeave()
	if m.ended {
		return m.out
	}
	m.steerShards()
	m.steerPlan()
	return m.out
}

// take notes what ev says. What follows from it is for the steer functions.
func (m *Machine) take(ev Event) {
	switch ev := ev.(type) {
	case Tick:
	case Leave:
		if !m.leaving {
			m.leaving = true
			m.latchAt = m.now + m.prepareTimeout() + latchSlack
			m.dirtyAll() // the time to prepare is shorter in a drain
		}
	case Listed:
		m.listed(ev.View)
	case Watched:
		m.watched(ev.Change)
	case LeaseGranted:
		m.leaseGranted(ev)
	case Renewed:
		m.renewed(ev)
	case Revoked:
		m.revoked(ev)
	case Committed:
		m.committed(ev)
	case Planned:
		m.planned(ev.Plan)
	case Ready:
		m.ready(ev)
	case Drained:
		m.drained(ev)
	case Returned:
		m.returned(ev)
	case Failed:
		m.failed(ev)
	case Prepared:
		m.prepared(ev)
	}
}

// listed replaces the view.
func (m *Machine) listed(v *layout.View) {
	if m.view != nil && v.Cluster != m.view.Cluster {
		m.exit(&Restored{Was: m.view.Rev, Now: v.Rev}, "the store is another cluster")
		return
	}
	// One goroutine lists and watches, in turn, so a list is never older than the view.
	var seen int64
	if m.view != nil {
		seen = m.view.Rev
	}
	if !m.reached(v.Rev, seen) {
		return
	}
	m.view = v
	m.membersChanged()
	for s := range v.Claims {
		if v.Claims[s].Rev != 0 && v.Claims[s].Lease == m.member.lease {
			m.dirty = append(m.dirty, s)
		}
	}
	for s := range v.Moves {
		m.dirty = append(m.dirty, s)
	}
	for s := range v.Avoids {
		m.dirty = append(m.dirty, s)
	}
	m.dirtyAll()
}

// watched brings the view on by one revision.
func (m *Machine) watched(c cas.Change) {
	if m.view == nil {
		return
	}
	m.view.Apply(c, &m.touched)
	if !m.reached(max(c.Rev, m.view.Rev), m.view.Rev) {
		return
	}
	m.dirty = append(m.dirty, m.touched.Shards...)
	if len(m.touched.Members) > 0 {
		m.membersChanged()
		for s := range m.view.Moves {
			m.dirty = append(m.dirty, s) // its target may be gone, or drain
		}
	}
	if m.touched.Config {
		m.dirtyAll()
	}
	if m.touched.Config || len(m.touched.Members) > 0 || len(m.touched.Shards) > 0 {
		m.replan()
	}
	m.wakeWaiting()
	m.nextTurn()
}

// reached notes that the store is at rev, told by a reply to a request that was sent when
// it was known to have reached atLeast. Revisions that turn back mean a restore from a backup: every epoch
// from here on could be lower than one that a fence has seen.
func (m *Machine) reached(rev, atLeast int64) bool {
	if rev < atLeast {
		m.exit(&Restored{Was: atLeast, Now: rev}, "the store's revisions went back")
		return false
	}
	if rev > shard.MaxRevision {
		m.exit(&Unusable{Err: fmt.Errorf("the store is at revision %d, epochs end at %d", rev, int64(shard.MaxRevision))},
			"revisions have run out")
		return false
	}
	m.head = max(m.head, rev)
	return true
}

// await notes that something waits for the view to reach rev. The watch brings what has happened by
// itself, so it need be asked only after a patience; but a revision at which nothing of the group's has changed comes
// only if it is asked.
func (m *Machine) await(rev int64, patience time.Duration) {
	if m.view == nil || rev > m.view.Rev {
		m.behind = max(m.behind, rev)
		m.askAt = m.now + patience
	}
}

// seek asks the watch how far it is, as long as something waits for it.
func (m *Machine) seek() {
	if m.view != nil && m.view.Rev < m.behind && m.now >= m.askAt {
		m.askAt = m.now + retryAfter
		m.emit(Progress{})
	}
}

func (m *Machine) seekNext() time.Duration {
	if m.view.Rev < m.behind {
		return m.askAt
	}
	return 0
}

// dirtyAll has every slot looked at in this step.
func (m *Machine) dirtyAll() {
	for s := range m.slots {
		m.dirty = append(m.dirty, s)
	}
}

// exit ends the machine, its tenures first.
func (m *Machine) exit(err error, reason string) {
	m.loseAll(reason)
	m.ended = true
	m.emit(Exit{Err: err})
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) note(shard int, err error, text string) {
	m.emit(Note{Text: text, Shard: shard, Err: err})
}

// Next is when the machine wants its next Tick at the latest; 0: not at all.
func (m *Machine) Next() time.Duration {
	var next time.Duration
	if m.ended || m.view == nil {
		return 0
	}
	for _, at := range [...]time.Duration{
		m.wake, m.member.next(m), m.plan.next(m), m.latchNext(), m.seekNext(),
	} {
		next = m.after(next, at)
	}
	return next
}

// after is the sooner of next and at, if at is still to come: what is due and was not done waits for something else than time.
func (m *Machine) after(next, at time.Duration) time.Duration {
	if at <= m.now {
		return next
	}
	return sooner(next, at)
}

func (m *Machine) latchNext() time.Duration {
	switch {
	case !m.leaving || m.member.created == 0:
		return 0
	case !m.latched:
		return m.latchAt
	}
	return m.leaveBy()
}

// sooner is the earlier of two times, of which 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// sortedUnique is in place.
func sortedUnique(shards []int) []int {
	slices.Sort(shards)
	return slices.Compact(shards)
}
