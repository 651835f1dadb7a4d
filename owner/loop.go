package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/follow"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner/internal/machine"
	"github.com/tenure-go/tenure/shard"
)

// loop drives a node's machine: the only goroutine that calls it. What takes time it has done elsewhere, and
// is told of by mail.
type loop struct {
	node    *Node
	machine *machine.Machine
	planner planner
	relist  chan struct{}
	refused chan error // why the store does not let the node list the group

	io     sync.WaitGroup // requests to the store, the follower, plans
	ioCtx  context.Context
	stopIO context.CancelFunc

	tenures  map[int]*Tenure      // by shard: the one that the machine speaks of
	overdue  []<-chan struct{}    // handlers that were given up on; closed once they return
	prepared map[int]*preparation // by shard: under way, or done and of use
	warming  []*preparation       // may still run
	exited   bool
	result   error
}

// planner makes plans one at a time: a plan of a former turn as planner may still be under way.
type planner struct {
	mu sync.Mutex // guards of; held for a whole plan, by goroutines that have nothing else to do
	of shard.Planner
}

func newLoop(n *Node) *loop {
	l := &loop{
		node:     n,
		machine:  machine.New(n.config.machine(n.group)),
		relist:   make(chan struct{}, 1),
		refused:  make(chan error, 1),
		tenures:  make(map[int]*Tenure),
		prepared: make(map[int]*preparation),
	}
	l.ioCtx, l.stopIO = context.WithCancel(context.Background())
	return l
}

func (l *loop) run(ctx context.Context) error {
	l.node.turned.Store(int64(l.node.clock.Now()))
	l.advise()
	l.io.Go(func() { l.follow(l.ioCtx) })
	timer := time.NewTimer(heartbeat(l.node.config.TTL))
	defer timer.Stop()
	var events []machine.Event
	done := ctx.Done()
	for !l.exited {
		select {
		case <-l.node.mail.wake:
		case <-timer.C:
		case err := <-l.refused:
			if l.machine.View() == nil { // later it may be mended, and tenures go on meanwhile
				l.exited, l.result = true, fmt.Errorf("owner: list group %s: %w", l.node.group.Name, err)
			}
		case <-done:
			done = nil
			l.node.leaving.Store(true)
			l.step(machine.Leave{})
		}
		events = l.node.mail.take(events)
		for _, ev := range events {
			l.step(ev)
		}
		if next := l.machine.Next(); next != 0 && next <= l.node.clock.Now() {
			l.step(machine.Tick{})
		}
		l.turn()
		wait := heartbeat(l.node.config.TTL)
		if next := l.machine.Next(); next != 0 {
			wait = min(wait, max(0, next-l.node.clock.Now()))
		}
		timer.Reset(wait)
	}
	l.end()
	l.node.log.Info("owner: stopped", "err", l.result)
	return l.result
}

// heartbeat is the longest time between two turns of the loop, so that Live can tell.
func heartbeat(ttl time.Duration) time.Duration { return ttl / 3 }

// step gives the machine one event and carries out what it wants.
func (l *loop) step(ev machine.Event) {
	if l.exited {
		return
	}
	effects := l.machine.Step(l.node.clock.Now(), ev)
	switch ev.(type) {
	case machine.Listed:
		l.showAll()
	case machine.Watched:
		l.show()
	}
	for _, e := range effects {
		l.carryOut(e)
	}
}

// turn ends a round of the loop.
func (l *loop) turn() { l.node.turned.Store(int64(l.node.clock.Now())) }

// end waits for all that the loop has started. What ignores its context is waited for as long as a hand-off would
// be, and then named: a function of the user's that does not return can't be made to.
func (l *loop) end() {
	n := l.node
	close(n.over)
	n.trust.Store(0)
	var running []<-chan struct{}
	for _, t := range l.tenures {
		t.shut()
		t.lose("the node has stopped")
		running = append(running, t.returned)
	}
	for _, p := range l.warming {
		p.cancel()
		running = append(running, p.done)
	}
	l.stopIO()
	l.io.Wait()
	timer := time.NewTimer(n.config.DrainTimeout)
	defer timer.Stop()
	for _, done := range running {
		select {
		case <-done:
			continue
		case <-timer.C:
		}
		break
	}
	running = slices.DeleteFunc(append(running, l.overdue...), ended)
	if len(running) > 0 {
		n.log.Error("owner: node has stopped, but handlers or preparations that ignore their context still run", "running", len(running))
		return
	}
	l.giveBack()
}

// giveBack revokes the lease of a node that ends because it can't go on, and in which nothing runs any more, so that its
// shards need not wait for the lease to end.
func (l *loop) giveBack() {
	lease := l.machine.Lease()
	if l.result == nil || lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), machine.RequestTimeout(l.node.config.TTL))
	defer cancel()
	if err := l.node.store.Revoke(ctx, lease); err != nil {
		l.node.log.Info("owner: the lease was not revoked, it ends by itself", "err", err)
	}
}

// follow posts what happens under the group's prefix.
func (l *loop) follow(ctx context.Context) {
	timeout := machine.RequestTimeout(l.node.config.TTL)
	follow.Run(ctx, follow.Config{
		Store:  l.node.store,
		Prefix: l.node.keys.Prefix(),
		Listed: func(s cas.Snapshot) {
			l.node.mail.post(machine.Listed{View: layout.Load(l.node.keys, l.node.group.Shards, s)})
		},
		Changed: func(c cas.Change) { l.node.mail.post(machine.Watched{Change: c}) },
		Broken: func(err error) {
			if errors.Is(err, cas.ErrDenied) || errors.Is(err, cas.ErrClosed) {
				select {
				case l.refused <- err:
				default:
				}
			}
			if !errors.Is(err, follow.ErrAsked) {
				l.node.log.Warn("owner: can't follow the store, trying again", "err", err)
			}
		},
		Probe:   timeout * 3 / 8, // three of them and a list fit into the trust that is left at worst: 0.9 TTL, a renewal old
		Digest:  time.Minute,
		Timeout: max(timeout, 10*time.Second), // a list of a large group takes its time
		Relist:  l.relist,
	})
}

// advise tells the operator what the store says of itself, such as servers with known lease bugs.
func (l *loop) advise() {
	adviser, ok := l.node.store.(cas.Adviser)
	if !ok {
		return
	}
	l.io.Go(func() {
		ctx, cancel := context.WithTimeout(l.ioCtx, machine.RequestTimeout(l.node.config.TTL))
		defer cancel()
		advice, err := adviser.Advice(ctx)
		if err != nil && l.ioCtx.Err() == nil {
			l.node.log.Info("owner: can't ask the store for its version", "err", err)
		}
		for _, a := range advice {
			l.node.log.Warn("owner: " + a)
		}
	})
}

// showAll brings board and stations to a new view.
func (l *loop) showAll() {
	v := l.machine.View()
	for s := range v.Claims {
		l.showMine(s)
	}
	l.node.board.PublishAll(v)
	for s := range v.Claims {
		l.showOthers(s)
	}
	l.showMembers()
	l.node.moved.announce()
}

// show brings board and stations to a change.
func (l *loop) show() {
	v, touched := l.machine.View(), l.machine.Touched()
	if v == nil {
		return
	}
	for _, s := range touched.Shards {
		l.showMine(s)
	}
	l.node.board.Publish(v, touched)
	for _, s := range touched.Shards {
		l.showOthers(s)
	}
	if len(touched.Members) > 0 {
		l.showMembers()
	}
	l.node.moved.announce()
}

// mine: s is claimed under this node's lease.
func (l *loop) mine(s int) bool {
	lease := l.machine.Lease()
	return lease != 0 && l.machine.View().Claims[s].Lease == lease
}

// showMine has those who wait for s know that it is here: before the board shows the revision, or a request that waits for
// just that would be sent away.
func (l *loop) showMine(s int) {
	if l.mine(s) {
		st := l.node.station(s)
		st.claimed.Store(true)
		st.change.announce()
	}
}

// showOthers has those who wait for s know that it is not, or no longer, here: after the board shows who has it.
func (l *loop) showOthers(s int) {
	if st := l.node.stations[s].Load(); st != nil && !l.mine(s) {
		st.claimed.Store(false)
		st.change.announce()
	}
}

// showMembers notes for Status what the member records say.
func (l *loop) showMembers() {
	v := l.machine.View()
	_, planner, _ := v.Oldest()
	l.node.oldest.Store(&planner)
	l.node.draining.Store(v.Members[l.node.config.ID].Draining)
}
