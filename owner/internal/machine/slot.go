package machine

import (
	"time"

	"github.com/tenure-go/tenure/shard"
)

// slot is a shard as this node lives with it. It exists from the first claim, move or
// avoid of this node on, and stays.
type slot struct {
	phase phase
	epoch shard.Epoch // of the handler that runs, or ran last
	rev   int64       // its claim's
	used  shard.Epoch // highest that was started, or given away by TRANSFER or RELEASE: never again (I4)
	since time.Duration
	until time.Duration // of the phase; 0: no bound

	lost              bool  // ended otherwise than by hand-off
	blamed            bool  // it was not ready in time, or the user gave it up
	returned, drained bool  // what the end of a tenure waits for
	err               error // the handler's
	hung              hung
	failed            int    // starts that failed in a row
	ended             int    // tenures that ended by themselves in a row, for the back-off
	why               string // of the last failure, for the avoid key

	txn     uint64        // under way
	asked   asked         // what it compares
	wait    int64         // act again once the view is here
	retryAt time.Duration // nor before that
	restAt  time.Duration // and start no handler before that

	moveOut   int64 // move away that was seen, by its create revision, and since when
	moveSince time.Duration
	prep      int64 // move to us that is being prepared for
	prepState prepState

	avoidUntil time.Duration
	wake       time.Duration // look at the slot then
}

// avoidFor is how long this node leaves the shard alone that it could not start: longer each time.
func (sl *slot) avoidFor() time.Duration {
	return doubled(firstAvoid, max(0, sl.ended-failedStarts), mostAvoid)
}

// asked is what a shard's transaction is sent for: it can be applied only while that stands.
type asked struct {
	kind Kind
	rev  int64 // of the claim, or the move's or the avoid's creation
}

// hung is a tenure that overstayed and was given up on, as long as anything of it runs.
type hung struct {
	epoch             shard.Epoch // 0: none
	returned, drained bool
}

type phase uint8

const (
	idle     phase = iota // no handler, or one that was given up on (hung)
	starting              // the handler runs, admission waits for Ready
	serving               // admission is open
	closing               // admission is closed; requests inside finish
	ending                // the handler's context has ended; it flushes and returns
)

func (p phase) String() string {
	return [...]string{"idle", "starting", "serving", "closing", "ending"}[p]
}

type prepState uint8

const (
	prepNone prepState = iota
	preparing
	prepReady
	prepFailed
)

const (
	failedStarts = 3                // so many in a row, and the shard is released
	steady       = 10 * time.Second // a tenure that served so long clears the back-off
	firstBackoff = 100 * time.Millisecond
	mostBackoff  = 30 * time.Second
	firstAvoid   = 10 * time.Second
	mostAvoid    = 5 * time.Minute
)

func (m *Machine) slot(s int) *slot {
	sl := m.slots[s]
	if sl == nil {
		sl = &slot{}
		m.slots[s] = sl
	}
	return sl
}

// mine: the claim of s is under this node's lease, and this node is a member.
func (m *Machine) mine(s int) bool {
	c := m.view.Claims[s]
	return m.member.created != 0 && c.Rev != 0 && c.Lease == m.member.lease
}

// moveAway: there is a move of s whose target could take it.
func (m *Machine) moveAway(s int) bool {
	mv, ok := m.view.Moves[s]
	if !ok || mv.Lease == m.member.lease {
		return false
	}
	id, ok := m.view.MemberOf(mv.Lease)
	return ok && m.view.Members[id].Err == nil && !m.view.Members[id].Draining
}
