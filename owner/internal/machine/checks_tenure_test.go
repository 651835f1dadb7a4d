package machine

import (
	"errors"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// sending sees a transaction when it is sent: I5.
func (c *checks) sending(n *simNode, e Commit) {
	if err := e.Txn.Validate(); err != nil {
		c.w.fail("case 19: %s%v: %v", e.Kind, e.Shards, err)
	}
	c.w.mark(hashOf(string(e.Kind)) + e.ID)
	c.txns[e.Kind]++
	for _, o := range e.Txn.Then {
		kind, s, _ := n.keys.Parse(o.Key)
		if kind != layout.ClaimKey || e.Kind == Grant || e.Kind == Reap {
			continue
		}
		for _, t := range n.at[s] {
			if t.node == n && !t.forced && !(t.closed && t.inside == 0 && t.returned) {
				c.w.fail("I5: %s sends %s of shard %d while its handler of epoch %v runs", n.name, e.Kind, s, t.epoch)
			}
		}
		if e.Kind == Transfer || e.Kind == Release {
			// Whatever lineage the claim is read under: its revision is what is given away.
			v := n.m.View()
			epoch, _ := shard.NewEpoch(v.Config.Lineage, v.Claims[s].Rev)
			c.given[tenureID{n.seqn, s, epoch}] = true
		}
	}
}

// refused: a transaction that is refused again and again, as fast as the store answers, is a livelock though each of its steps
// is right.
func (c *checks) refused(n *simNode, e Commit) {
	if n.now-n.second >= time.Second {
		n.second, n.refusals = n.now, 0
	}
	if n.refusals++; n.refusals > 200+c.w.group.Shards/4 {
		c.w.fail("%s has %d transactions refused in a second, %s%v the last", n.name, n.refusals, e.Kind, e.Shards)
	}
}

// revoking: own trust is zero, and every gate closed, before the own lease is revoked; another's only by Takeover.
func (c *checks) revoking(n *simNode, lease cas.LeaseID) {
	if slices.Contains(n.leases, lease) {
		c.txns["LEAVE"]++
		for s := range n.at {
			for _, t := range n.at[s] {
				if t.node == n && (t.admits() || lease == n.lease && !t.closed && !t.forced) {
					c.w.fail("%s revokes its lease while the gate of shard %d is open", n.name, s)
				}
			}
		}
		if lease == n.lease && n.trust != 0 {
			c.w.fail("%s revokes its lease while it trusts it", n.name)
		}
		return
	}
	if !n.c.Takeover || n.created != 0 || n.tookOver != 0 && n.tookOver != lease {
		c.w.fail("%s revokes lease %d: takeover=%v joined=%d before=%d", n.name, lease, n.c.Takeover, n.created, n.tookOver)
	}
	n.tookOver = lease
}

// evicted: lease ends by another's doing than its holder's. Then only the fence is left (I6).
func (c *checks) evicted(lease cas.LeaseID) {
	if c.w.actor == nil || !slices.Contains(c.w.actor.leases, lease) {
		c.ended[lease] = true
	}
}

// trusting: gates are never told to admit for longer than I3 allows.
func (c *checks) trusting(n *simNode) {
	if n.trust > n.bound {
		c.w.fail("I3: %s trusts until %v: at most %v", n.name, n.trust, n.bound)
	}
}

// starting is the start rule (I4).
func (c *checks) starting(t *simTenure) {
	n, w := t.node, c.w
	claim := n.m.View().Claims[t.shard]
	c.count["start"]++
	switch id := c.id(t); {
	case claim.Rev != t.epoch.Revision() || claim.Lease != n.lease || n.created == 0:
		w.fail("start rule: %s starts shard %d, epoch %v: claim %+v, own lease %d", n.name, t.shard, t.epoch, claim, n.lease)
	case n.local() >= n.bound || n.trust <= n.local():
		w.fail("start rule: %s starts shard %d without trust", n.name, t.shard)
	case t.epoch <= n.used[t.shard]:
		w.fail("I4: %s starts shard %d, epoch %v, after %v", n.name, t.shard, t.epoch, n.used[t.shard])
	case c.given[id]:
		w.fail("start rule: %s starts shard %d, epoch %v, which it gave away", n.name, t.shard, t.epoch)
	case c.begun[tenureID{0, t.shard, t.epoch}]:
		w.fail("I4: shard %d starts twice under epoch %v", t.shard, t.epoch)
	case n.m.latched:
		w.fail("start rule: %s starts shard %d while leaving", n.name, t.shard)
	}
	for _, r := range n.at[t.shard] {
		if r.node == n && !r.forced {
			w.fail("start rule: %s starts shard %d, epoch %v, while epoch %v runs", n.name, t.shard, t.epoch, r.epoch)
		}
	}
	n.used[t.shard] = t.epoch
	c.begun[tenureID{0, t.shard, t.epoch}] = true
	t.lease = n.lease
}

func (c *checks) opening(t *simTenure) {
	if t.open || c.given[c.id(t)] {
		c.w.fail("%s opens shard %d, epoch %v, again", t.node.name, t.shard, t.epoch)
	}
	c.served[t.shard], c.last = c.w.now, c.w.now
}

// admitted: a request is in. The claim is still there, and nobody else's: that is what trust is for (I3).
func (c *checks) admitted(t *simTenure) {
	n := t.node
	c.count["admitted"]++
	if n.local() >= n.bound {
		c.w.fail("I3: %s admits to shard %d at %v: trust is over at %v", n.name, t.shard, n.local(), n.bound)
	}
	if c.ended[t.lease] || t.epoch <= c.robbed[t.shard] {
		return
	}
	e := c.w.store.keys[c.w.keys.Claim(t.shard)]
	if e.Rev != t.epoch.Revision() || e.Lease != t.lease {
		c.w.fail("I3: %s admits to shard %d under epoch %v: the claim is %+v", n.name, t.shard, t.epoch, e)
	}
}

func (c *checks) ending(t *simTenure) {
	if !t.closed || t.inside > 0 {
		c.w.fail("I5: %s ends the handler of shard %d with %d requests inside", t.node.name, t.shard, t.inside)
	}
}

func (c *checks) losing(t *simTenure, e Lose) {
	c.count["lost: "+e.Reason]++
	if c.graceful {
		c.w.fail("I10: %s loses shard %d: %s", t.node.name, t.shard, e.Reason)
	}
}

func (c *checks) overdue(t *simTenure, e Overdue) {
	c.count["overdue"]++
	if e.Forced && t.node.c.NeverForce {
		c.w.fail("%s forces shard %d: NeverForce", t.node.name, t.shard)
	}
	if c.graceful {
		c.w.fail("I10: %s: shard %d is overdue", t.node.name, t.shard)
	}
}

// seal is the fence's first verb (I6).
func (c *checks) seal(t *simTenure) bool {
	if t.epoch < c.sealed[t.shard] {
		c.count["seal refused"]++
		return false
	}
	c.sealed[t.shard] = t.epoch
	return true
}

// write is a side effect, guarded by the fence (I6). Zombies are refused.
func (c *checks) write(t *simTenure) {
	s := t.shard
	if c.sealed[s] != t.epoch {
		c.count["stale write refused"]++
		return
	}
	if t.epoch < c.written[s] {
		c.w.fail("I6: a write under epoch %v after one under %v", t.epoch, c.written[s])
	}
	c.written[s] = t.epoch
}

// knocked: a request for s came, and was let in or not. In the strict form of I10 it waits at most WaitTimeout.
func (c *checks) knocked(s int, admitted bool, now time.Duration) {
	switch {
	case admitted:
		c.dark[s] = 0
	case c.dark[s] == 0:
		c.dark[s] = now
	case c.graceful && c.dark[s] > 0 && now-c.dark[s] >= waitTimeout:
		c.w.fail("I10: shard %d refused requests from %v on", s, c.dark[s])
	}
}

// exited: a node ends with nil only if it was told to leave, and with an error only for cause.
func (c *checks) exited(n *simNode) {
	switch {
	case n.err == nil && !n.leaving:
		c.w.fail("%s exits without being told to", n.name)
	case n.err != nil && c.graceful:
		c.w.fail("I10: %s exits: %v", n.name, n.err)
	case n.err != nil:
		c.exitedFor(n)
	}
	c.count["exit"]++
}

func (c *checks) exitedFor(n *simNode) {
	if _, ok := errors.AsType[*Abandoned](n.err); ok {
		c.count["exit: Abandoned"]++ // the store could not be reached
		return
	}
	if _, ok := errors.AsType[*Taken](n.err); ok && c.duplicated(n) {
		c.count["exit: Taken"]++
		return
	}
	if _, ok := errors.AsType[*Restored](n.err); ok && n.born < c.w.gen {
		c.count["exit: Restored"]++
		return
	}
	c.w.fail("%s exits without cause: %v", n.name, n.err)
}

// duplicated: another process used n's id.
func (c *checks) duplicated(n *simNode) bool {
	return slices.ContainsFunc(c.w.nodes, func(o *simNode) bool { return o != n && o.id == n.id })
}
