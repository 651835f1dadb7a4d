package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

const (
	// batchShards is the most shards in a transaction: two conditions or operations each, and up to
	// four for all, of the 128 that etcd allows.
	batchShards = (cas.MaxOps - 4) / 2

	// window is how many shard transactions, and how many planner's, are under way at once. More gain nothing
	// (DESIGN: measured on etcd); what comes meanwhile waits, and goes in bigger batches.
	window = 4

	// writeFresh is how long after a put was applied the store counts as taking them.
	writeFresh = time.Second
)

// transactions are what this node has sent and not had an answer to.
type transactions struct {
	last      uint64
	open      map[uint64]transaction
	shardOpen int
	planOpen  int
	intents   []intent      // of this step
	starved   []int         // shards whose intent found the window full, first come first
	fullUntil time.Duration // the store was full: try again then
	holdUntil time.Duration // and begin no drain before. Longer, so that what is tried again says first whether there is space
	wroteAt   time.Duration // the last put that was applied was sent then
	wrote     bool          // there was one
	probing   bool          // PROBE is under way
	probed    []int         // shards that wait for its answer
	probeAt   time.Duration // try again then
	refusedAt int64         // a conflict was at that revision, and nothing was applied since; 0: none
}

type transaction struct {
	kind   Kind
	shards []int
	lease  cas.LeaseID // own, when sent
	head   int64       // the reply can't be older
	view   int64       // it was made from the view at this revision
	puts   bool        // a full store would have refused it
	sent   time.Duration
}

// intent is a shard's wish to be in the next transaction of its kind. Those of one kind and target share
// one: a put under a dead lease fails its whole transaction, so targets don't mix.
type intent struct {
	kind   Kind
	target string
	shard  int
}

func (t *transactions) init() { t.open = make(map[uint64]transaction) }

func (m *Machine) commit(kind Kind, shards []int, txn cas.Txn) uint64 {
	t := &m.txns
	t.last++
	puts := slices.ContainsFunc(txn.Then, func(o cas.Op) bool { return !o.Delete })
	t.open[t.last] = transaction{kind: kind, shards: shards, lease: m.member.lease, head: m.head, view: m.view.Rev, puts: puts, sent: m.now}
	m.emit(Commit{ID: t.last, Kind: kind, Shards: shards, Txn: txn})
	return t.last
}

// unsent stands for the transaction that a shard will be in once this step's are sent.
const unsent = ^uint64(0)

// want puts s into the next transaction of kind. It is in no other until that has been answered.
func (m *Machine) want(kind Kind, target string, s int) {
	sl := m.slots[s]
	sl.txn, sl.asked = unsent, asked{kind, m.stands(kind, s)}
	m.txns.intents = append(m.txns.intents, intent{kind, target, s})
}

// stands is what a transaction of kind for s would compare.
func (m *Machine) stands(kind Kind, s int) int64 {
	switch kind {
	case SetReady:
		if m.view.Moves[s].Ready {
			return 0 // done
		}
		return m.view.Moves[s].Created
	case Decline:
		return m.view.Moves[s].Created
	case Unavoid:
		return m.view.Avoids[s][m.c.Member.ID].Created
	}
	return m.view.Claims[s].Rev
}

// overtaken: the view has gone past what the shard's transaction compares. It was applied, or never will be: there is nothing to
// wait for, and its answer may be long in coming.
func (m *Machine) overtaken(s int, sl *slot) bool {
	return sl.txn != 0 && m.stands(sl.asked.kind, s) != sl.asked.rev
}

// feed has as many of the starved look again as the window could take: all of them each time would cost, in a node
// of many shards, more than everything else.
func (m *Machine) feed() {
	t := &m.txns
	n := min(len(t.starved), max(0, window-t.shardOpen)*batchShards)
	m.dirty = append(m.dirty, t.starved[:n]...)
	t.starved = t.starved[n:]
	if len(t.starved) == 0 {
		t.starved = nil
	}
}

// writable reports whether the store takes puts, as far as can be known: a gate that is closed for a hand-off that then
// can't be written is closed for as long as the store is full. If it has not been seen lately it is tried, and s looked
// at again once that is answered.
func (m *Machine) writable(s int, sl *slot) bool {
	t := &m.txns
	switch {
	case m.now < t.holdUntil:
		m.wakeAt(sl, t.holdUntil)
		return false
	case t.wrote && m.now-t.wroteAt < writeFresh:
		return true
	case m.now < t.probeAt:
		m.wakeAt(sl, t.probeAt)
		return false
	}
	t.probed = append(t.probed, s)
	if !t.probing {
		t.probing = true
		own := m.c.Member.ID
		m.commit(Probe, nil, cas.Txn{
			If:   []cas.Cond{cas.CreatedAt(m.keys.Member(own), m.member.created)},
			Then: []cas.Op{cas.PutLeased(m.keys.Probe(own), nil, m.member.lease)},
		})
	}
	return false
}

// probeAnswered has those that waited for it look again.
func (m *Machine) probeAnswered(retry time.Duration) {
	t := &m.txns
	t.probing, t.probeAt = false, retry
	m.dirty = append(m.dirty, t.probed...)
	t.probed = nil
}

// flush sends the step's intents, as many as the window holds. The rest look again when an answer comes.
func (m *Machine) flush() {
	t := &m.txns
	slices.SortStableFunc(t.intents, func(a, b intent) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.target, b.target))
	})
	for len(t.intents) > 0 {
		first := t.intents[0]
		n := 1
		for n < len(t.intents) && n < batchShards && t.intents[n].kind == first.kind && t.intents[n].target == first.target {
			n++
		}
		shards := make([]int, n)
		for i, in := range t.intents[:n] {
			shards[i] = in.shard
		}
		t.intents = t.intents[n:]
		if t.shardOpen >= window {
			t.starved = append(t.starved, shards...)
			for _, s := range shards {
				m.slots[s].txn = 0
			}
			continue
		}
		t.shardOpen++
		id := m.commit(first.kind, shards, m.shardTxn(first.kind, first.target, shards))
		for _, s := range shards {
			m.slots[s].txn = id
		}
	}
	t.intents = nil
}

// shardTxn is the transaction of kind for shards, as package owner's documentation lists them.
func (m *Machine) shardTxn(kind Kind, target string, shards []int) cas.Txn {
	var txn cas.Txn
	own, k := m.c.Member.ID, m.keys
	avoid := func(s int) cas.Op {
		why := layout.Avoid{Format: layout.Format, Why: m.slots[s].why, For: m.slots[s].avoidFor().Milliseconds()}
		return cas.PutLeased(k.Avoid(s, own), layout.Encode(why), m.member.lease)
	}
	ifs := func(c ...cas.Cond) { txn.If = append(txn.If, c...) }
	then := func(o ...cas.Op) { txn.Then = append(txn.Then, o...) }
	switch kind {
	case Transfer:
		to := m.view.Members[target]
		ifs(m.configCond(), cas.AtRev(k.Member(target), to.Rev))
		claim := layout.Encode(layout.Claim{Format: layout.Format, Member: target})
		for _, s := range shards {
			ifs(cas.AtRev(k.Claim(s), m.view.Claims[s].Rev), cas.CreatedAt(k.Move(s), m.view.Moves[s].Created))
			then(cas.PutLeased(k.Claim(s), claim, to.Lease), cas.Delete(k.Move(s)))
		}
	case Reclaim:
		ifs(m.configCond(), cas.CreatedAt(k.Member(own), m.member.created))
		claim := layout.Encode(layout.Claim{Format: layout.Format, Member: own})
		for _, s := range shards {
			ifs(cas.AtRev(k.Claim(s), m.view.Claims[s].Rev))
			then(cas.PutLeased(k.Claim(s), claim, m.member.lease))
		}
	case Release:
		for _, s := range shards {
			ifs(cas.AtRev(k.Claim(s), m.view.Claims[s].Rev))
			then(cas.Delete(k.Claim(s)), avoid(s))
		}
	case SetReady:
		move := layout.Encode(layout.Move{Format: layout.Format, To: own, Ready: true})
		for _, s := range shards {
			ifs(cas.CreatedAt(k.Move(s), m.view.Moves[s].Created))
			then(cas.PutLeased(k.Move(s), move, m.member.lease))
		}
	case Decline:
		for _, s := range shards {
			ifs(cas.CreatedAt(k.Move(s), m.view.Moves[s].Created))
			then(cas.Delete(k.Move(s)), avoid(s))
		}
	case Unavoid:
		for _, s := range shards {
			ifs(cas.CreatedAt(k.Avoid(s, own), m.view.Avoids[s][own].Created))
			then(cas.Delete(k.Avoid(s, own)))
		}
	}
	return txn
}

// committed takes a transaction's answer. Applied or in conflict, what it was about is looked at again when the view
// has reached the reply's revision; an uncertain one may be sent again, because each compares what it
// changes: if the first was applied, or will be, the second is a conflict.
func (m *Machine) committed(ev Committed) {
	t, ok := m.txns.open[ev.ID]
	if !ok {
		return
	}
	delete(m.txns.open, ev.ID)
	var wait int64
	var retry time.Duration
	conflict, isConflict := errors.AsType[*cas.ConflictError](ev.Err)
	switch {
	case ev.Err == nil:
		wait = ev.Rev
		m.await(wait, retryAfter)
	case isConflict:
		wait = conflict.Rev
		m.await(wait, 0)
		if m.contradicted(t, conflict.Rev) {
			retry = m.now + retryAfter
			m.emit(Relist{})
		}
	case errors.Is(ev.Err, cas.ErrLeaseNotFound):
		retry = m.now + retryAfter
		m.emit(Relist{}) // the view shows a member that is gone
	default:
		retry = m.now + retryAfter
		m.refused(ev.Err, string(t.kind)+" got no definite answer or was refused")
		if errors.Is(ev.Err, cas.ErrNoSpace) {
			retry = m.txns.fullUntil
		}
	}
	if wait != 0 && !m.reached(wait, t.head) {
		return
	}
	if wait != 0 && m.txns.holdUntil != 0 && t.puts {
		m.txns.fullUntil, m.txns.holdUntil = 0, 0
		m.dirtyAll()
	}
	if ev.Err == nil {
		m.txns.refusedAt = 0
	}
	if ev.Err == nil && t.puts {
		m.txns.wrote, m.txns.wroteAt = true, max(m.txns.wroteAt, t.sent)
	}
	if errors.Is(ev.Err, cas.ErrDenied) && !m.member.joined {
		m.exit(&Unusable{Err: fmt.Errorf("%s: %w", t.kind, ev.Err)}, "the store refuses the permission")
		return
	}
	switch t.kind {
	case Probe:
		if isConflict {
			retry = m.now + retryAfter // the own record is not what the view shows: nothing to do before that shows
		}
		m.probeAnswered(retry)
	case Configure, Join, Update:
		if retry != 0 {
			retry = m.now + m.retryDelay()
		} else {
			m.member.failures = 0
		}
		m.member.txn, m.member.wait, m.member.retryAt = 0, wait, retry
		m.member.otherSure = m.member.otherSure || t.kind == Join && isConflict && m.now >= m.member.otherUntil
	case Grant, Move, Cancel, Reap:
		m.txns.planOpen--
		m.planAnswered(wait, retry, isConflict && retry == 0)
	default:
		m.txns.shardOpen--
		m.dirty = append(m.dirty, t.shards...)
		for _, s := range t.shards {
			if sl := m.slots[s]; sl.txn == ev.ID {
				sl.txn, sl.wait = 0, wait
				sl.retryAt = max(sl.retryAt, retry)
			}
		}
	}
	if errors.Is(ev.Err, cas.ErrLeaseNotFound) && t.kind.underOwnLease() && t.lease == m.member.lease {
		m.leaseGone()
	}
}

// contradicted notes a conflict, and reports whether t was made from a view that had already reached the conflict before. One
// is another node's doing, between the view and the store. Two say that what the view shows is perhaps not there: etcd has lost
// events, and what a view is wrong about would be tried again as fast as the store refuses it.
func (m *Machine) contradicted(t transaction, rev int64) bool {
	before := m.txns.refusedAt
	m.txns.refusedAt = rev
	return before != 0 && t.view >= before
}

// underOwnLease: the transaction puts a key under this node's own lease.
func (k Kind) underOwnLease() bool {
	switch k {
	case Join, Update, Reclaim, Release, SetReady, Decline, Probe:
		return true
	}
	return false
}
