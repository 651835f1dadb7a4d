package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cluster is the node processes, and the load balancer in front of them: it sends clients to nodes that say they
// are ready.
type cluster struct {
	config nodeConfig // less the ID
	stderr io.Writer
	hear   func(id string, ev event)
	fail   context.CancelCauseFunc // a node has ended that should not
	http   *http.Client            // for health checks

	mu    sync.Mutex // guards nodes
	nodes map[string]*process

	ready  atomic.Pointer[[]*process] // in the order of IDs
	turn   atomic.Uint64
	stop   context.CancelFunc
	checks sync.WaitGroup
}

const checkEvery = 100 * time.Millisecond

// newCluster has no nodes yet. Close it.
func newCluster(c nodeConfig, stderr io.Writer, fail context.CancelCauseFunc, hear func(string, event)) *cluster {
	ctx, stop := context.WithCancel(context.Background())
	l := &cluster{
		config: c, stderr: stderr, hear: hear, fail: fail, stop: stop,
		http:  &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{}},
		nodes: make(map[string]*process),
	}
	l.ready.Store(new([]*process))
	l.checks.Go(func() {
		tick := time.NewTicker(checkEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			l.check(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return l
}

// start starts a node and returns once it listens.
func (l *cluster) start(ctx context.Context, id string) error {
	c := l.config
	c.ID = id
	p, err := startNode(ctx, c, l.stderr, func(ev event) { l.hear(id, ev) })
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.nodes[id] = p
	l.mu.Unlock()
	l.checks.Go(func() {
		<-p.exited
		if l.node(id) == p {
			l.fail(fmt.Errorf("%s: %w", id, p.failure()))
		}
	})
	return nil
}

// node is the process of that ID, or nil.
func (l *cluster) node(id string) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[id]
}

// forget says that a node is to end: that is no failure any more.
func (l *cluster) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, id)
}

// all is every node, in the order of IDs.
func (l *cluster) all() []*process {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*process, 0, len(l.nodes))
	for _, id := range slices.Sorted(maps.Keys(l.nodes)) {
		all = append(all, l.nodes[id])
	}
	return all
}

// check asks every node once whether it is ready.
func (l *cluster) check(ctx context.Context) {
	all := l.all()
	up := make([]bool, len(all))
	var asked sync.WaitGroup
	for i, p := range all {
		asked.Go(func() { up[i] = l.isReady(ctx, p) })
	}
	asked.Wait()
	ready := make([]*process, 0, len(all))
	for i, p := range all {
		if up[i] {
			ready = append(ready, p)
		}
	}
	l.ready.Store(&ready)
}

func (l *cluster) isReady(ctx context.Context, p *process) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := l.http.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// pick is a node to send to, each in turn, or nil if none is ready.
func (l *cluster) pick() *process {
	ready := *l.ready.Load()
	if len(ready) == 0 {
		return nil
	}
	return ready[l.turn.Add(1)%uint64(len(ready))]
}

// close kills every node and waits for all that was started.
func (l *cluster) close() {
	for _, p := range l.all() {
		l.forget(p.id)
		p.kill()
	}
	l.stop()
	l.checks.Wait()
	l.http.CloseIdleConnections()
}
