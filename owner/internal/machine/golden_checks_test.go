package machine

import (
	"fmt"
	"slices"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// stageChecks are the invariants that the stage sees to at every step, whatever the script expects. Like those of
// the simulation they go by the stage's books, and not by what a machine believes.
type stageChecks struct {
	g      *stage
	actor  *process          // whose transaction is being applied
	epochs []shard.Epoch     // by shard: highest epoch of a claim
	given  map[[3]int64]bool // process, shard, revision: TRANSFER or RELEASE was sent for that claim
	begun  map[[2]int64]bool // shard, epoch
	seen   *layout.View      // by view
	seenOf *modelStore
	sealed []shard.Epoch        // the resource: what each shard was sealed with
	voided map[string]bool      // keys of claims that an operator has touched
	ended  map[cas.LeaseID]bool // leases ended early by others: then only the fence is left (I6)
}

func newStageChecks(g *stage) stageChecks {
	n := g.group.Shards
	return stageChecks{
		g: g, epochs: make([]shard.Epoch, n), sealed: make([]shard.Epoch, n),
		given: make(map[[3]int64]bool), begun: make(map[[2]int64]bool), ended: make(map[cas.LeaseID]bool), voided: make(map[string]bool),
	}
}

// changed sees every change before it shows: I1, I2, I7, and that what is given is given to those that may have it.
func (c *stageChecks) changed(why string, before cas.Entry, ev cas.Event) {
	kind, s, id := c.g.keys.Parse(ev.Key)
	byTxn := c.actor != nil && why != "expired" && why != "revoked"
	switch Kind(why) {
	case Grant, Move, Cancel, Reap:
		if oldest, who, ok := c.view().Oldest(); !ok || oldest.Created != c.actor.created || who != c.actor.id {
			c.g.failf("I7: %s of %s lands, but %s is the oldest", why, c.actor.name, who)
		}
	}
	if byTxn && !ev.Deleted && ev.Lease == 0 && kind != layout.ConfigKey {
		c.g.failf("%s puts %s under no lease", why, ev.Key)
	}
	if why == string(Join) && before.Lease != 0 {
		c.g.failf("JOIN overwrites the member %s", id)
	}
	switch {
	case kind != layout.ClaimKey:
	case why == "operator":
		c.voided[ev.Key] = true
	case byTxn:
		c.voided[ev.Key] = false
		c.claimChanged(Kind(why), s, before, ev)
	}
	if kind == layout.ClaimKey && !ev.Deleted {
		epoch := c.epoch(ev.Rev)
		if epoch <= c.epochs[s] && why != "operator" {
			c.g.failf("I2: %d gets epoch %v after %v", s, epoch, c.epochs[s])
		}
		c.epochs[s] = epoch
	}
}

func (c *stageChecks) claimChanged(why Kind, s int, before cas.Entry, ev cas.Event) {
	mine := before.Rev != 0 && slices.Contains(c.actor.leases, before.Lease)
	mv := c.g.store.keys[c.g.keys.Move(s)]
	ok := false
	switch why {
	case Grant:
		ok = !ev.Deleted && before.Rev == 0
	case Transfer:
		ok = !ev.Deleted && mine && mv.Lease == ev.Lease && c.given[[3]int64{c.number(c.actor), int64(s), before.Rev}]
	case Reclaim:
		ok = !ev.Deleted && mine && before.Lease == ev.Lease
	case Release:
		ok = ev.Deleted && mine
	case Reap:
		_, member := c.view().MemberOf(before.Lease)
		ok = ev.Deleted && !member
	}
	if !ok {
		c.g.failf("I1: %s of %s changes the claim of %d from %+v to %+v", why, c.actor.name, s, before, ev)
	}
	if why == Grant || why == Transfer {
		v := c.view()
		id, _ := v.MemberOf(ev.Lease)
		if m := v.Members[id]; !m.Eligible() {
			c.g.failf("case 16: %s gives %d to %q, %+v", why, s, id, m)
		}
	}
}

// view is the store's state as of its revision: while a transaction is applied, as of the one before.
func (c *stageChecks) view() *layout.View {
	if c.seen == nil || c.seenOf != c.g.store || c.seen.Rev != c.g.store.rev {
		c.seen, c.seenOf = layout.Load(c.g.keys, c.g.group.Shards, c.g.store.list()), c.g.store
	}
	return c.seen
}

// epoch is what a claim of revision rev stands for now, 0 if for nothing.
func (c *stageChecks) epoch(rev int64) shard.Epoch { return c.view().Epoch(rev) }

// epochOf is the epoch of the claim of s, 0 if there is none.
func (c *stageChecks) epochOf(s int) shard.Epoch { return c.epoch(c.view().Claims[s].Rev) }

func (c *stageChecks) number(p *process) int64 { return int64(slices.Index(c.g.procs, p)) }

// sending sees a transaction when it is sent: I5.
func (c *stageChecks) sending(p *process, e Commit) {
	if err := e.Txn.Validate(); err != nil {
		c.g.failf("case 19: %v", err)
	}
	for _, o := range e.Txn.Then {
		kind, s, _ := c.g.keys.Parse(o.Key)
		if kind != layout.ClaimKey || e.Kind == Grant || e.Kind == Reap {
			continue
		}
		for _, t := range p.running {
			if t.shard == s && !t.forced && !(t.closed && t.inside == 0 && t.returned) {
				c.g.failf("I5: %s sends %s of %d while its handler runs", p.name, e.Kind, s)
			}
		}
		if e.Kind != Reclaim {
			c.given[[3]int64{c.number(p), int64(s), p.m.View().Claims[s].Rev}] = true
		}
	}
}

// revoking: own trust is zero and own gates are closed before the own lease goes; another's only by Takeover.
func (c *stageChecks) revoking(p *process, lease cas.LeaseID) {
	if c.g.lessee[lease] == p {
		for _, t := range p.running {
			if !t.closed && t.lease == lease {
				c.g.failf("%s revokes its lease while the gate of %d is open", p.name, t.shard)
			}
		}
		if lease == p.lease && p.trust != 0 {
			c.g.failf("%s revokes its lease while it trusts it", p.name)
		}
		return
	}
	if !p.c.Takeover || p.created != 0 || p.tookOver != 0 && p.tookOver != lease {
		c.g.failf("%s revokes lease %d of %s", p.name, lease, c.g.who(lease))
	}
	p.tookOver = lease
}

func (c *stageChecks) trusting(p *process) {
	if p.trust > p.bound {
		c.g.failf("I3: %s trusts %v longer than it may", p.name, p.trust-p.bound)
	}
}

// starting is the start rule.
func (c *stageChecks) starting(t *stageTenure) {
	p, claim := t.of, t.of.m.View().Claims[t.shard]
	id := [2]int64{int64(t.shard), int64(t.epoch)}
	var why string
	switch {
	case claim.Rev != t.epoch.Revision() || claim.Lease != p.lease:
		why = "not its claim"
	case p.now >= p.trust:
		why = "no trust"
	case t.epoch <= p.used[t.shard] || c.begun[id]:
		why = "an epoch that was used"
	case c.given[[3]int64{c.number(p), int64(t.shard), claim.Rev}]:
		why = "an epoch that was given away"
	case p.m.latched:
		why = "it leaves"
	}
	for _, r := range p.running {
		if r.shard == t.shard && !r.forced {
			why = fmt.Sprintf("the handler of %v runs", r.epoch)
		}
	}
	if why != "" {
		c.g.failf("start rule: %s starts %d under %v: %s", p.name, t.shard, t.epoch, why)
	}
	p.used[t.shard], c.begun[id] = t.epoch, true
}

func (c *stageChecks) opening(t *stageTenure) {
	if t.open || t.closed || c.given[[3]int64{c.number(t.of), int64(t.shard), t.epoch.Revision()}] {
		c.g.failf("%s opens %d under %v again", t.of.name, t.shard, t.epoch)
	}
}

// exiting: nothing admits any more.
func (c *stageChecks) exiting(p *process) {
	for _, t := range p.running {
		if !t.closed {
			c.g.failf("%s exits while the gate of %d is open", p.name, t.shard)
		}
	}
}

// gates: whoever admits holds the claim (I3), so no two admit to one shard.
func (c *stageChecks) gates() {
	for _, p := range c.g.procs {
		for _, t := range p.running {
			key := c.g.keys.Claim(t.shard)
			if !t.admits() || c.ended[t.lease] || c.voided[key] {
				continue
			}
			if e := c.g.store.keys[key]; e.Rev != t.epoch.Revision() || e.Lease != t.lease {
				c.g.failf("I3: %s admits to %d under %v, but the claim is of %d and %s's", p.name, t.shard, t.epoch, e.Rev, c.g.who(e.Lease))
			}
		}
	}
}

// seal is the fence's first verb, and write its second: I6.
func (c *stageChecks) seal(t *stageTenure) error {
	if t.epoch < c.sealed[t.shard] {
		return fmt.Errorf("fenced: sealed with %v", c.sealed[t.shard])
	}
	c.sealed[t.shard] = t.epoch
	return nil
}

func (c *stageChecks) write(t *stageTenure) bool { return c.sealed[t.shard] == t.epoch }
