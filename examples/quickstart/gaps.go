package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// gaps measures for how long a client can't write to a shard that is handed over.
//
// From the order to move the shard on, the parent writes to it, again and again, each time through any node. The gap
// begins when the old owner closes its gate, which it reports, or with its last acknowledgement if that is later
// (or with the order, if the report was late). It ends with the first acknowledgement of the new owner. So it
// contains the drain, the transfer, seal and load at the new owner, and the way of the request that waited.
type gaps struct {
	story *story
	done  sync.WaitGroup
	open  atomic.Int64 // shards being measured

	mu    sync.Mutex // guards what follows
	moves map[int]*shut
	all   []time.Duration
}

// shut is when a gate was closed.
type shut struct {
	at   time.Time
	done chan struct{} // closed once at is set
}

// rest is between two writes that the old owner acknowledges: more haste would slow down what is measured.
const rest = 10 * time.Millisecond

func (g *gaps) list() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all
}

// begin measures m's gap, if all is calm, in the background.
func (g *gaps) begin(ctx context.Context, m move) {
	if !g.story.ledger.calm.Load() {
		return
	}
	gate := &shut{done: make(chan struct{})}
	g.mu.Lock()
	g.moves[m.shard] = gate
	g.mu.Unlock()
	g.open.Add(1)
	g.done.Go(func() {
		defer g.open.Add(-1)
		g.measure(ctx, m, gate)
	})
}

func (g *gaps) measure(ctx context.Context, m move, gate *shut) {
	client, account := g.story.client, g.story.accounts.probes[m.shard]
	for from := m.seen; ; {
		a, err := client.insist(ctx, account, order{Op: client.op("probe"), Amount: 1})
		if err != nil {
			g.story.fail(err)
			return
		}
		now := time.Now()
		if a.Epoch.Revision() > m.claim {
			g.add(now, from, gate)
			return
		}
		from = now
		pause := time.NewTimer(rest)
		select {
		case <-gate.done: // now one has to wait there
		case <-pause.C:
		}
		pause.Stop()
	}
}

// add notes a gap from the later of from and the gate's closing.
func (g *gaps) add(now, from time.Time, gate *shut) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gate.at.After(from) {
		from = gate.at
	}
	g.all = append(g.all, now.Sub(from))
}

// closed is told that a shard's owner has closed its gate.
func (g *gaps) closed(shard int, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gate := g.moves[shard]; gate != nil {
		delete(g.moves, shard)
		gate.at = at
		close(gate.done)
	}
}
