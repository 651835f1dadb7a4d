package machine

import (
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// checks are the invariants of package owner's documentation, checked at every event, by the world's own
// books and not by what a machine believes.
type checks struct {
	w        *world
	graceful bool // nothing fails and nobody dies: I10 holds in its strict form

	claimed []shard.Epoch // by shard: highest epoch of a claim
	begun   map[tenureID]bool
	given   map[tenureID]bool    // TRANSFER or RELEASE was sent for it
	sealed  []shard.Epoch        // the users' resource: what each shard was last sealed with
	written []shard.Epoch        // and the epoch of the last write that it took
	ended   map[cas.LeaseID]bool // leases that were ended by others than their holders, or of which a node can't know
	robbed  []shard.Epoch        // by shard: highest epoch whose claim an operator has overwritten
	dark    []time.Duration      // since when a shard refuses requests; -1: it was never served
	served  []time.Duration

	handed  int           // shards that were given to another member than before
	expired time.Duration // a lease ended by itself
	last    time.Duration // a claim, a move or a member record changed, or a gate opened

	count map[string]int // how often what was seen: coverage
	txns  map[Kind]int   // transactions that were sent
}

type tenureID struct {
	node, shard int
	epoch       shard.Epoch
}

func (c *checks) init(w *world) {
	n := w.group.Shards
	*c = checks{
		w: w, claimed: make([]shard.Epoch, n), sealed: make([]shard.Epoch, n), written: make([]shard.Epoch, n),
		begun: make(map[tenureID]bool), given: make(map[tenureID]bool), ended: make(map[cas.LeaseID]bool),
		dark: make([]time.Duration, n), served: make([]time.Duration, n), count: make(map[string]int),
		robbed: make([]shard.Epoch, n), txns: make(map[Kind]int),
	}
	for s := range c.dark {
		c.dark[s] = -1
	}
}

func (c *checks) id(t *simTenure) tenureID { return tenureID{t.node.seqn, t.shard, t.epoch} }

// changed sees every change of the store before it shows: I1, I2, I7, and that nothing is put
// where, or under what, it must not be.
func (c *checks) changed(why string, before cas.Entry, ev cas.Event) {
	w := c.w
	kind, s, id := w.keys.Parse(ev.Key)
	w.mark(hashOf(why) + uint64(ev.Rev)<<8 + hashOf(ev.Key))
	if w.actor == nil && why != "expired" {
		return // an operator's
	}
	c.count[why]++
	c.last = w.now
	if why == "expired" {
		c.expired = w.now
	}
	if !ev.Deleted && ev.Lease == 0 && kind != layout.ConfigKey {
		w.fail("%s puts %s under no lease", why, ev.Key)
	}
	switch Kind(why) {
	case Grant, Move, Cancel, Reap:
		if oldest, id, _ := w.sees().Oldest(); !c.misled(w.actor) && (id != w.actor.id || oldest.Created != w.actor.created) {
			w.fail("I7: %s of %s lands, which is not the oldest member: that is %s", why, w.actor.name, id)
		}
	}
	switch kind {
	case layout.ClaimKey:
		c.claimChanged(Kind(why), s, before, ev)
	case layout.MoveKey:
		c.moveChanged(Kind(why), s, before, ev)
	case layout.MemberKey:
		if why == string(Join) && before.Lease != 0 {
			w.fail("%s overwrites the member %s", why, id)
		}
		if why == string(Update) && before.Lease != ev.Lease {
			w.fail("%s of %s takes over another's record", why, id)
		}
	}
}

// misled: n may plan though others are older: it has lost events, and does not know them; or has not seen yet that the store
// was restored; or an operator's put has detached its record from its lease, which leaves the record's creation, that plans
// compare. Plans of two at once are no danger, because each transaction compares what it changes.
func (c *checks) misled(n *simNode) bool {
	if n.born < c.w.gen {
		return true
	}
	own := c.w.store.keys[c.w.keys.Member(n.id)]
	detached := own.Lease == 0 && own.Created == n.created
	return detached || n.blind || n.blindAt != 0 && n.now-n.blindAt < 4*RequestTimeout(n.c.TTL)
}

// memberOf is the record under lease.
func (c *checks) memberOf(lease cas.LeaseID) (layout.MemberState, bool) {
	id, ok := c.w.sees().MemberOf(lease)
	m := c.w.sees().Members[id]
	return m, ok && m.Err == nil
}

func (c *checks) claimChanged(why Kind, s int, before cas.Entry, ev cas.Event) {
	w := c.w
	var holderOfOld bool
	if w.actor != nil {
		holderOfOld = before.Rev != 0 && slices.Contains(w.actor.leases, before.Lease)
	}
	switch {
	case why == Grant && !ev.Deleted:
		if before.Rev != 0 {
			w.fail("I8: GRANT of shard %d to lease %d takes it from lease %d", s, ev.Lease, before.Lease)
		}
	case why == Transfer && !ev.Deleted:
		mv := w.store.keys[w.keys.Move(s)]
		if !holderOfOld || mv.Rev == 0 || mv.Lease != ev.Lease {
			w.fail("I1: %s transfers shard %d to lease %d: claim %+v, move %+v", w.actor.name, s, ev.Lease, before, mv)
		}
		if !c.given[tenureID{w.actor.seqn, s, c.epoch(before.Rev)}] {
			w.fail("I1: %s transfers shard %d, revision %d: not what it sent", w.actor.name, s, before.Rev)
		}
	case why == Reclaim && !ev.Deleted:
		if !holderOfOld || before.Lease != ev.Lease {
			w.fail("I1: %s reclaims shard %d, which lease %d holds", w.actor.name, s, before.Lease)
		}
	case why == Release && ev.Deleted:
		if !holderOfOld {
			w.fail("I1: %s releases shard %d, which lease %d holds", w.actor.name, s, before.Lease)
		}
	case why == Reap && ev.Deleted:
		// A record that is younger is of a node that will give them up. A planner that never saw the record takes the claim
		// for a dead one's, and its owner is as badly off as if its lease had ended.
		m, ok := c.memberOf(before.Lease)
		switch {
		case !ok || m.Created > before.Rev:
		case c.misled(w.actor):
			c.ended[before.Lease] = true
		default:
			w.fail("I8: shard %d of the member %s is reaped", s, m.ID)
		}
	case (why == "expired" || why == "revoked") && ev.Deleted:
	default:
		w.fail("I1: %s writes the claim of shard %d", why, s)
	}
	if ev.Deleted {
		return
	}
	if why == Grant || why == Transfer {
		if m, ok := c.memberOf(ev.Lease); !ok || m.Draining {
			w.fail("case 16: %s gives shard %d to lease %d, member %v %+v", why, s, ev.Lease, ok, m)
		}
	}
	if why != Reclaim {
		c.handed++
	}
	epoch := c.epoch(ev.Rev)
	if epoch <= c.claimed[s] && !w.restoring {
		w.fail("I2: shard %d gets epoch %v after %v", s, epoch, c.claimed[s])
	}
	c.claimed[s] = max(epoch, c.claimed[s])
}

// epoch is what a claim of revision rev stands for now.
func (c *checks) epoch(rev int64) shard.Epoch {
	e, _ := shard.NewEpoch(c.w.sees().Config.Lineage, rev)
	return e
}

func (c *checks) moveChanged(why Kind, s int, before cas.Entry, ev cas.Event) {
	switch {
	case ev.Deleted:
	case why == Move && before.Rev != 0:
		c.w.fail("the move of shard %d is overwritten by another", s)
	case why == Move:
		if m, ok := c.memberOf(ev.Lease); !ok || m.Draining {
			c.w.fail("case 16: shard %d is to move to lease %d, member %v %+v", s, ev.Lease, ok, m)
		}
		if c.w.store.keys[c.w.keys.Claim(s)].Rev == 0 {
			c.w.fail("shard %d is to move, but nobody holds it", s)
		}
	case why == SetReady && before.Lease != ev.Lease:
		c.w.fail("%s says READY for another's move of shard %d", c.w.actor.name, s)
	}
}
