package machine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// process is a machine on the stage, with the driver's duties played for it.
type process struct {
	*stage
	name string
	id   string
	c    Config
	m    *Machine

	up, paused, cut, leaving bool

	watching bool
	pos      int64 // revision that the watch has been given
	commits  map[uint64]Commit
	asked    []*question

	lease    cas.LeaseID
	leases   []cas.LeaseID
	trust    time.Duration
	bound    time.Duration // what trust may be at most (I3)
	created  int64
	tookOver cas.LeaseID
	used     map[int]shard.Epoch

	planner shard.Planner
	tenures map[int]*stageTenure // that the machine speaks of
	running []*stageTenure       // and all of which something runs
	broken  map[string]string    // what fails in its handlers, and how
}

func (g *stage) boot(name string, c Config) *process {
	c.Group, c.GroupID = g.group, "group-of-"+name
	c.TTL, c.StartTimeout, c.PrepareTimeout, c.DrainTimeout = ttl, 30*time.Second, 10*time.Second, 8*time.Second
	c.Settle = time.Second
	p := &process{
		stage: g, name: name, id: c.Member.ID, c: c, m: New(c), up: true,
		commits: make(map[uint64]Commit), used: make(map[int]shard.Epoch),
		tenures: make(map[int]*stageTenure), broken: make(map[string]string),
	}
	g.procs = append(g.procs, p)
	p.relist()
	return p
}

// step gives the machine an event, tells it and what follows, and does that.
func (p *process) step(ev Event) {
	said := p.tellEvent(ev)
	effects := p.m.Step(p.now, ev)
	var told []string
	for _, e := range effects {
		if s := p.tellEffect(e); s != "" {
			told = append(told, s)
		}
	}
	switch {
	case len(told) > 0:
		p.tell("%s: %s => %s", p.name, said, strings.Join(few(told), "; "))
	case p.alwaysTold(ev):
		p.tell("%s: %s", p.name, said)
	}
	for _, e := range effects {
		if !p.up {
			return
		}
		p.do(e)
	}
}

// ask plays a request to the store.
func ask[R any](p *process, name string, apply func() (R, error), answer func(R, error)) {
	g := p.stage
	q := &question{name: name, deadline: p.now + RequestTimeout(p.c.TTL)}
	p.asked = append(p.asked, q)
	unknown := func() {
		var zero R
		q.answered = true
		answer(zero, cas.ErrUncertain)
	}
	q.timedOut = unknown
	g.fact("%s %s sent", p.name, name)
	g.send(&message{
		name: "request " + p.name + " " + name, of: p, way: toStore, q: q, lost: unknown,
		arrive: func() {
			got, err := apply()
			g.send(&message{
				name: "reply " + p.name + " " + name, of: p, way: toNode, q: q, lost: unknown,
				arrive: func() {
					q.answered = true
					answer(got, err)
				},
			})
			// What the request changed is on its way to all watches by now, behind the reply.
			for _, other := range g.procs {
				other.pump()
			}
		},
	})
}

// local is something that the process does by itself, in its time.
func (p *process) local(name string, fn func()) {
	p.send(&message{name: name, of: p, arrive: fn})
}

// relist lists anew and watches from there.
func (p *process) relist() {
	p.watching = false
	q := &question{name: "LIST", deadline: p.now + RequestTimeout(p.c.TTL)}
	p.asked = append(p.asked, q)
	again := func() {
		q.answered = true
		p.relist()
	}
	q.timedOut = again
	p.send(&message{
		name: "request " + p.name + " LIST", of: p, way: toStore, q: q, lost: again,
		arrive: func() {
			q.answered = true // from here on it is the stream's
			snap := p.store.list()
			p.watching, p.pos = true, snap.Rev
			p.stream(func() { p.step(Listed{View: layout.Load(p.keys, p.group.Shards, snap)}) })
		},
	})
}

// stream is what the watch brings, in its order.
func (p *process) stream(fn func()) {
	p.send(&message{name: "watch " + p.name, of: p, way: toNode, arrive: fn, lost: p.relist})
}

// pump puts into the stream what is new.
func (p *process) pump() {
	if !p.up || !p.watching {
		return
	}
	for _, c := range p.store.since(p.pos) {
		p.pos = c.Rev
		p.stream(func() { p.step(Watched{Change: c}) })
	}
}

// do carries out an effect: duty 2.
func (p *process) do(e Effect) {
	switch e := e.(type) {
	case GrantLease:
		sent := p.now
		ask(p, "LEASE", func() (cas.Lease, error) {
			l := p.store.grant(p.now, e.TTL)
			p.lessee[l.ID] = p
			return l, nil
		}, func(l cas.Lease, err error) {
			if err == nil {
				p.lease, p.bound = l.ID, sent+l.TTL-Margin(l.TTL)
				p.leases = append(p.leases, l.ID)
			}
			p.step(LeaseGranted{Sent: sent, Lease: l, Err: err})
		})
	case Renew:
		sent := p.now
		ask(p, "RENEW", func() (cas.Lease, error) { return p.store.renew(p.now, e.Lease) },
			func(l cas.Lease, err error) {
				l.ID = e.Lease
				if err == nil && l.ID == p.lease {
					p.bound = max(p.bound, sent+l.TTL-Margin(l.TTL))
				}
				p.step(Renewed{Sent: sent, Lease: l, Err: err})
			})
	case Revoke:
		p.checks.revoking(p, e.Lease)
		kind, own := "REVOKE", p.lessee[e.Lease] == p
		if !own {
			kind = "TAKEOVER"
		}
		ask(p, kind, func() (struct{}, error) {
			if !own {
				p.checks.ended[e.Lease] = true
			}
			p.checks.actor = p
			defer func() { p.checks.actor = nil }()
			return struct{}{}, p.endLease("revoked", fmt.Sprintf("%s revokes lease %d of %s", p.name, e.Lease, p.who(e.Lease)), e.Lease)
		}, func(_ struct{}, err error) { p.step(Revoked{Lease: e.Lease, Err: err}) })
	case Commit:
		p.checks.sending(p, e)
		p.commits[e.ID] = e
		ask(p, string(e.Kind), func() (int64, error) { return p.commit(p, e) },
			func(rev int64, err error) {
				if errors.Is(err, cas.ErrUncertain) {
					p.fact("%s %s unanswered", p.name, e.Kind)
				}
				p.step(Committed{ID: e.ID, Rev: rev, Err: err})
			})
	case Progress:
		p.send(&message{
			name: "request " + p.name + " PROGRESS", of: p, way: toStore, lost: func() {},
			arrive: func() {
				if rev := p.store.rev; p.up && p.watching {
					p.stream(func() { p.step(Watched{Change: cas.Change{Rev: rev}}) })
				}
			},
		})
	case Relist:
		p.relist()
	case MakePlan:
		p.local("plan "+p.name, func() { p.step(Planned{Plan: p.planner.Plan(e.In)}) })
	case Joined:
		p.created = e.Created
		p.fact("%s joins", p.name)
	case Trust:
		p.trust = e.Until
		p.checks.trusting(p)
	case Prepare:
		p.fact("%s %d prepares", p.name, e.Shard)
		p.local(fmt.Sprintf("prepared %s %d", p.name, e.Shard), func() {
			p.step(Prepared{Shard: e.Shard, Move: e.Move, Err: p.fails("prepare", e.Shard)})
		})
	case Note, Unprepare:
	case Exit:
		p.checks.exiting(p)
		p.stop()
		p.fact("%s exits %s", p.name, exitName(e.Err))
	default:
		p.doTenure(e)
	}
}

// fails is the error that a step of the handler of s ends with, nil if all is well.
func (p *process) fails(step string, s int) error {
	if why, ok := p.broken[fmt.Sprintf("%s %d", step, s)]; ok {
		return errors.New(why)
	}
	return nil
}

// stop ends the process, and all that runs in it. What it has sent is on its way all the same.
func (p *process) stop() {
	p.up, p.running = false, nil
	clear(p.tenures)
	for _, q := range p.asked {
		q.answered = q.answered || q.name == "LIST"
	}
}

// exitName is the error's type, or Left.
func exitName(err error) string {
	if err == nil {
		return "Left"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*machine.")
}
