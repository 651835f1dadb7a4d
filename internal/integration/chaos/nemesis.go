package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/owner"
)

// nemesis carries faults out.
type nemesis struct {
	fleet    *fleet
	etcd     *etcd
	postgres *postgres
	admin    *owner.Admin
	owners   *owners
	recorder *recorder
	say      func(format string, args ...any)

	nodes [nodes]chan struct{} // each has room for the one fault that the node suffers
	store chan struct{}        // the same for etcd

	mu      sync.Mutex // guards the rest
	done    []happened
	now     []fault // under way
	lineage int
}

// firstLineage is what the run raises the group to: epochs are above what a float64 holds, which JSON must survive.
const firstLineage = 40

// init makes n ready for run.
func (n *nemesis) init() {
	n.lineage, n.store = firstLineage, make(chan struct{}, 1)
	for i := range n.nodes {
		n.nodes[i] = make(chan struct{}, 1)
	}
}

// run carries the plan out and returns when the last fault is over. Each begins at its time, but not before an
// earlier one of the same node is over.
func (n *nemesis) run(ctx context.Context, faults []fault) {
	var under sync.WaitGroup
	defer under.Wait()
	for _, f := range faults {
		if !pause(ctx, f.At-n.recorder.now()) {
			return
		}
		under.Go(func() { n.one(ctx, f) })
	}
}

func (n *nemesis) one(ctx context.Context, f fault) {
	k := kindOf(f.Kind)
	if k.node {
		n.nodes[f.Node] <- struct{}{}
		defer func() { <-n.nodes[f.Node] }()
	}
	if k.etcd {
		n.store <- struct{}{}
		defer func() { <-n.store }()
	}
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	n.now = append(n.now, f)
	n.mu.Unlock()
	h := happened{fault: f, Start: n.recorder.now()}
	err := n.carryOut(ctx, f)
	h.End = n.recorder.now()

	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.now {
		if n.now[i] == f {
			n.now = append(n.now[:i], n.now[i+1:]...)
			break
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			n.say("fault not carried out: %s: %v", f, err)
		}
		return
	}
	n.done = append(n.done, h)
}

// so is what was done, and what is under way.
func (n *nemesis) so() (done []happened, now []fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append(done, n.done...), append(now, n.now...)
}

func (n *nemesis) carryOut(ctx context.Context, f fault) error {
	m := n.fleet.members[f.Node]
	switch f.Kind {
	case faultStop, faultHiccup:
		return n.stop(m, func() error { pause(ctx, f.For); return nil })
	case faultZombie:
		return n.stop(m, func() error { return n.replaced(ctx, m) })
	case faultKill:
		p, _ := m.at()
		p.kill()
		pause(ctx, f.For)
		return n.fleet.start(f.Node, n.postgres, f.Coin)
	case faultRestart:
		p, _ := m.at()
		if err := p.end(ctx, 30*time.Second); err != nil && ctx.Err() == nil {
			n.say("%v", err) // it may have left shards behind: other faults go on meanwhile
		}
		pause(ctx, f.For)
		return n.fleet.start(f.Node, n.postgres, f.Coin)
	case faultCut:
		n.cut(ctx, f, both, m.etcd[:]...)
	case faultCutRequests:
		n.cut(ctx, f, requests, m.etcd[:]...)
	case faultCutReplies:
		n.cut(ctx, f, replies, m.etcd[:]...)
	case faultCutMember:
		n.cut(ctx, f, both, m.etcd[f.Member])
	case faultCutSQL:
		n.cut(ctx, f, both, m.sql)
	case faultSQLReplies:
		n.cut(ctx, f, replies, m.sql)
	case faultCutPeers:
		n.cut(ctx, f, both, m.peers)
	default:
		return n.storeFault(ctx, f)
	}
	return nil
}

// stop stops m's process while during lasts.
func (n *nemesis) stop(m *member, during func() error) error {
	p, _ := m.at()
	if err := p.stop(); err != nil {
		return err
	}
	return errors.Join(during(), p.wake())
}

// replaced waits until others own what m owned, and have written for a while.
func (n *nemesis) replaced(ctx context.Context, m *member) error {
	if n.owners.of(m.id) == 0 {
		return fmt.Errorf("%s owns nothing", m.id)
	}
	err := until(ctx, 30*time.Second, "another owner of what "+m.id+" owned", func() bool {
		return n.owners.of(m.id) == 0 && n.owners.of("") == 0
	})
	pause(ctx, 10*beatEvery)
	return err
}

// cut makes wires silent for a while.
func (n *nemesis) cut(ctx context.Context, f fault, d direction, wires ...*wire) {
	for _, w := range wires {
		w.sever(d)
	}
	pause(ctx, f.For)
	for _, w := range wires {
		w.heal(f.Coin)
	}
}

// storeFault is what etcd suffers, or an operator does in it.
func (n *nemesis) storeFault(ctx context.Context, f fault) error {
	switch f.Kind {
	case faultKillLeader:
		i := n.etcd.leader(ctx)
		if i < 0 {
			i = f.Member
		}
		n.etcd.process(i).kill()
		pause(ctx, f.For)
		return n.etcdBack(ctx, i)
	case faultStopMember:
		i := f.Member
		if lead := n.etcd.leader(ctx); f.Coin && lead >= 0 {
			i = lead
		}
		p := n.etcd.process(i)
		if err := p.stop(); err != nil {
			return err
		}
		pause(ctx, f.For)
		return errors.Join(p.wake(), n.etcdBack(ctx))
	case faultRestartEtcd:
		for i := range members {
			n.etcd.process(i).kill()
		}
		pause(ctx, f.For)
		return n.etcdBack(ctx, 0, 1, 2)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch f.Kind {
	case faultCompact:
		now, err := n.etcd.client.Get(ctx, "chaos")
		if err == nil {
			_, err = n.etcd.client.Compact(ctx, now.Header.Revision)
		}
		return err
	case faultDefragment:
		_, err := n.etcd.client.Defragment(ctx, n.etcd.endpoints[f.Member])
		return err
	case faultLineage:
		n.mu.Lock()
		n.lineage++
		above := n.lineage
		n.mu.Unlock()
		return n.admin.RaiseLineage(ctx, above)
	case faultPin:
		return n.pin(ctx, f)
	}
	return fmt.Errorf("unknown fault %q", f.Kind)
}

// etcdBack starts members, and waits until there is a leader again.
func (n *nemesis) etcdBack(ctx context.Context, dead ...int) error {
	for _, i := range dead {
		if err := n.etcd.start(i); err != nil {
			return err
		}
	}
	return until(ctx, 20*time.Second, "etcd to elect a leader", func() bool { return n.etcd.leader(ctx) >= 0 })
}

func (n *nemesis) pin(ctx context.Context, f fault) error {
	if err := n.admin.Pin(ctx, f.Shard, nodeID(f.Node)); err != nil {
		return err
	}
	pause(ctx, f.For)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return n.admin.Pin(ctx, f.Shard, "")
}
