package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// observer is the parent's own watch on the group's keys. Programs need nothing like it: they have router.Table. It
// exists to time what the library does from outside.
type observer struct {
	root  string // of the group's keys
	began func(move)
	fail  context.CancelCauseFunc
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu     sync.Mutex           // guards what follows
	claims map[int]int64        // shard to revision of its claim
	moves  map[int]bool         // shards that are to move
	orders int                  // to move one, so far
	alive  map[string]bool      // members
	gone   map[string]time.Time // members: when their key's deletion was seen
}

// move is the planner's order that a shard go elsewhere.
type move struct {
	shard int
	claim int64 // revision of the claim that stood when the order came: what the old owner's epoch ends in
	seen  time.Time
}

// observe lists and then follows the keys of g. began is called for each new move and must return at once.
// Close the observer.
func observe(ctx context.Context, s cas.Store, g shard.Group, fail context.CancelCauseFunc, began func(move)) (*observer, error) {
	g = g.WithDefaults()
	o := &observer{
		root: g.Prefix + "/" + g.Name + "/", began: began, fail: fail,
		claims: make(map[int]int64), moves: make(map[int]bool),
		alive: make(map[string]bool), gone: make(map[string]time.Time),
	}
	snap, err := s.List(ctx, o.root)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", o.root, err)
	}
	for _, e := range snap.Entries {
		o.apply(cas.Event{Entry: e}, time.Now())
	}
	var run context.Context
	run, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	changes := s.Watch(run, o.root, snap.Rev)
	o.done.Go(func() { o.follow(run, changes) })
	return o, nil
}

func (o *observer) follow(ctx context.Context, changes <-chan cas.Change) {
	for c := range changes {
		if c.Err != nil && ctx.Err() == nil {
			o.fail(fmt.Errorf("watch %s: %w", o.root, c.Err))
		}
		now := time.Now()
		for _, ev := range c.Events {
			if m, ok := o.apply(ev, now); ok {
				o.began(m)
			}
		}
	}
}

// apply notes one change, and returns a new move.
func (o *observer) apply(ev cas.Event, now time.Time) (move, bool) {
	dir, name, _ := strings.Cut(strings.TrimPrefix(ev.Key, o.root), "/")
	o.mu.Lock()
	defer o.mu.Unlock()
	switch dir {
	case "members":
		delete(o.alive, name)
		delete(o.gone, name)
		if ev.Deleted {
			o.gone[name] = now
		} else {
			o.alive[name] = true
		}
	case "claims", "moves":
		s, err := strconv.Atoi(name)
		if err != nil {
			break
		}
		switch {
		case dir == "claims" && ev.Deleted:
			delete(o.claims, s)
		case dir == "claims":
			o.claims[s] = ev.Rev
		case ev.Deleted:
			delete(o.moves, s)
		default:
			fresh := !o.moves[s] // else it became ready
			o.moves[s] = true
			if fresh {
				o.orders++
			}
			return move{shard: s, claim: o.claims[s], seen: now}, fresh
		}
	}
	return move{}, false
}

func (o *observer) isMember(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.alive[id]
}

// goneSince is when the member's key was seen to go; zero while it is there.
func (o *observer) goneSince(id string) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone[id]
}

// moved counts the orders to move a shard, so far.
func (o *observer) moved() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.orders
}

// moving counts the shards that are to move.
func (o *observer) moving() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.moves)
}

func (o *observer) close() {
	o.stop()
	o.done.Wait()
}
