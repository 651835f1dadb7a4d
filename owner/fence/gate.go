package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/shard"
)

// Gate is the fence for a server of your own: it stands before state that the server holds. A
// shard must be sealed before Do, also after a restart (ErrNotSealed). The zero value is ready to
// use and knows no shard. Safe for concurrent use; must not be copied after its first use.
//
// A gate remembers epochs in memory only. If the state that it fences outlives the process, a zombie
// may find an empty gate after a restart, seal it, and write, until the owner's next call is
// refused as ErrNotSealed and it seals again: keep the epoch beside such state and Seal with
// it when you start.
//
// It remembers every group and shard that was ever sealed, so let only peers seal whom you authenticate.
type Gate struct {
	mu     sync.Mutex // guards the map and all that it points to; never held while fn runs
	shards map[gateKey]*gateShard
}

type gateKey struct {
	group string
	shard int
}

// gateShard has the same two steps as a seal in SQL: wanted turns new calls away, so that those
// under way can run out, and then the epoch is raised.
type gateShard struct {
	groupID string
	epoch   shard.Epoch
	wanted  shard.Epoch
	running int           // calls of fn under epoch
	idle    chan struct{} // closed when running falls to 0; nil unless a Seal waits for that
}

// Seal lets only tok's epoch pass from now on. It waits for the calls of Do under the older epoch, while
// new ones are refused already; hence fn calls of one shard never overlap a Seal that changes the epoch,
// and an fn must not wait for a Seal of its own shard. It gives up when ctx ends: then tok is not
// sealed (the error's Outcome is NotApplied), but older owners stay shut out. Idempotent: after an
// error call it again. *FencedError if a higher epoch is there or comes while it waits, *GroupError
// if another group has sealed; then nothing has changed.
func (g *Gate) Seal(ctx context.Context, tok shard.Token) error {
	if err := CheckToken(tok); err != nil {
		return err
	}
	s, idle, err := g.want(tok)
	if err != nil {
		return err
	}
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
			return notApplied(fmt.Sprintf("seal %s: calls under an older epoch still run", tok), context.Cause(ctx))
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// Of several that waited, the highest has its way, whichever wakes first.
	if s.wanted > tok.Epoch {
		return &FencedError{Mine: tok.Epoch, Current: s.wanted}
	}
	s.epoch = tok.Epoch
	return nil
}

// want raises wanted, and returns what to wait for, if anything.
func (g *Gate) want(tok shard.Token) (*gateShard, <-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := gateKey{tok.Group, tok.Shard}
	s := g.shards[key]
	if s == nil {
		if g.shards == nil {
			g.shards = make(map[gateKey]*gateShard)
		}
		s = &gateShard{groupID: tok.GroupID}
		g.shards[key] = s
	}
	if s.groupID != tok.GroupID {
		return nil, nil, &GroupError{Group: tok.Group, Shard: tok.Shard, Mine: tok.GroupID, Theirs: s.groupID}
	}
	if s.wanted > tok.Epoch {
		return nil, nil, &FencedError{Mine: tok.Epoch, Current: s.wanted}
	}
	s.wanted = tok.Epoch
	if s.running == 0 || s.epoch == tok.Epoch {
		return s, nil, nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s, s.idle, nil
}

// Do runs fn if tok is what was sealed, and returns what fn returns. Else fn does not run:
// *FencedError, ErrNotSealed, *GroupError. Calls of fn run at the same time as each other.
func (g *Gate) Do(tok shard.Token, fn func() error) error {
	if err := CheckToken(tok); err != nil {
		return err
	}
	s, err := g.enter(tok)
	if err != nil {
		return err
	}
	defer g.leave(s) // also if fn panics
	return fn()
}

func (g *Gate) enter(tok shard.Token) (*gateShard, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shards[gateKey{tok.Group, tok.Shard}]
	if s == nil {
		return nil, ErrNotSealed
	}
	known := State{GroupID: s.groupID, Epoch: s.epoch, Wanted: s.wanted}
	if err := known.Refuse(tok); err != nil {
		return nil, err
	}
	s.running++
	return s, nil
}

func (g *Gate) leave(s *gateShard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.running--
	if s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}
