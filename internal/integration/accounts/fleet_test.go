package accounts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fleet is the processes, and the load balancer in front of them.
type fleet struct {
	dir  string // of logs
	args []string
	env  []string

	mu      sync.Mutex // guards running
	running []*process

	ready atomic.Pointer[[]*process]
}

// checkEvery is how often the load balancer asks each process whether it is ready. What it sends to one that has begun to
// leave meanwhile is forwarded.
const checkEvery = 500 * time.Millisecond

// balance follows which processes are ready, until the test ends.
func (f *fleet) balance(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	client := &http.Client{Transport: &http.Transport{}}
	var done sync.WaitGroup
	f.look(ctx, client)
	done.Go(func() {
		tick := time.NewTicker(checkEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.look(ctx, client)
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
		client.CloseIdleConnections()
	})
}

func (f *fleet) look(ctx context.Context, client *http.Client) {
	f.mu.Lock()
	running := append([]*process(nil), f.running...)
	f.mu.Unlock()
	up := make([]bool, len(running))
	var asked sync.WaitGroup
	for i, p := range running {
		if p != nil {
			asked.Go(func() { up[i] = p.ready(ctx, client) })
		}
	}
	asked.Wait()
	var ready []*process
	for i, p := range running {
		if up[i] {
			ready = append(ready, p)
		}
	}
	f.ready.Store(&ready)
}

// pick is a process that was ready a moment ago.
func (f *fleet) pick() *process {
	ready := *f.ready.Load()
	return ready[rand.IntN(len(ready))] // a restart waits for the one before, so there is always one
}

// start starts process i for the nth time, as a pod of its own: with another name, and at another address.
func (f *fleet) start(t *testing.T, i, n int) {
	t.Helper()
	p := launch(t, f.dir, fmt.Sprintf("accounts-%d.%d", i+1, n), f.args, f.env)
	f.mu.Lock()
	f.running[i] = p
	f.mu.Unlock()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	until(t, 30*time.Second, p.name+" to be ready", func() bool { return p.ready(t.Context(), client) })
}

// end tells process i to end, and waits for that.
func (f *fleet) end(t *testing.T, i int) time.Duration {
	t.Helper()
	f.mu.Lock()
	p := f.running[i]
	f.mu.Unlock()
	return p.end(t)
}
