package moving

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// gaps notes who finished work for which part, and when. Safe for concurrent use.
type gaps struct {
	mu   sync.Mutex
	last [Parts]finished
	when phase
	took [phases][]time.Duration
}

// phase of a trial.
type phase int

const (
	starting phase = iota
	leaving
	joining
	phases
)

type finished struct {
	member string
	at     time.Time
}

// saw notes that member has finished a piece of work for part.
func (g *gaps) saw(part int, member string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if was := g.last[part]; was.member != "" && was.member != member {
		g.took[g.when] = append(g.took[g.when], now.Sub(was.at))
	}
	g.last[part] = finished{member, now}
}

// has is for how many parts member was the last that finished anything.
func (g *gaps) has(member string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, f := range g.last {
		if f.member == member {
			n++
		}
	}
	return n
}

// begin says what the gaps from now on are of.
func (g *gaps) begin(p phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.when = p
}

// of is the gaps of a phase.
func (g *gaps) of(p phase) []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]time.Duration(nil), g.took[p]...)
}

// await waits until member works on n parts, and the others on the rest.
func (g *gaps) await(ctx context.Context, member string, n int) error {
	return until(ctx, fmt.Sprintf("%s works on %d parts of %d (now %d)", member, n, Parts, g.has(member)), func() bool { return g.has(member) == n })
}

func until(ctx context.Context, what string, met func() bool) error {
	deadline, tick := time.NewTimer(patience), time.NewTicker(2*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !met() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("moving: not within %s: %s", patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// crew is two members, "a" and "b", of which b comes and goes.
type crew interface {
	join(ctx context.Context, member string) error
	leave(member string) error // returns when the member is gone
}

// trial has both join, and then b leave and join once more under the eyes of g; settled is called before.
func trial(ctx context.Context, c crew, g *gaps, settled func() error) error {
	if err := c.join(ctx, "a"); err != nil {
		return err
	}
	if err := g.await(ctx, "a", Parts); err != nil {
		return err
	}
	if err := c.join(ctx, "b"); err != nil {
		return err
	}
	if err := g.await(ctx, "b", Parts/2); err != nil {
		return err
	}
	if err := settled(); err != nil {
		return err
	}
	g.begin(leaving)
	if err := c.leave("b"); err != nil {
		return err
	}
	if err := g.await(ctx, "a", Parts); err != nil {
		return err
	}
	g.begin(joining)
	if err := c.join(ctx, "b"); err != nil {
		return err
	}
	return g.await(ctx, "b", Parts/2)
}
