package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/follow"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// Table follows who owns what: a hint, read without lock, allocation or I/O. Safe for
// concurrent use. The zero value is invalid; see Open.
type Table struct {
	group shard.Group
	store cas.Store
	log   *slog.Logger

	board *layout.Board
	shown atomic.Pointer[string]         // the ID of the group that board shows, nil while it shows none
	who   atomic.Pointer[[]shard.Member] // the group's members, oldest first; nil while none are shown
	heard atomic.Int64                   // store.Now() in ns when the store last told us something
	turns waiters                        // who wait for a shard to change hands

	close context.CancelFunc
	done  sync.WaitGroup
}

// Open lists g in s and follows it until Close. It returns once the first list is in; ctx bounds
// only that, and while the store can't be reached Open keeps trying and tells l so. The table of
// a group that nobody has joined yet is empty, and fills later.
//
// A group that the store holds with other shards or another hash is an *owner.ConfigError. l may be
// nil for silence. Close the table after the servers and before s. On error nothing is left
// running. The outcome of all of Open's errors is cas.NotApplied.
func Open(ctx context.Context, s cas.Store, g shard.Group, l *slog.Logger) (*Table, error) {
	if s == nil {
		return nil, &setupError{errors.New("router: Open needs a store, got nil")}
	}
	if err := g.Validate(); err != nil {
		return nil, &setupError{fmt.Errorf("router: %w", err)}
	}
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	t := &Table{
		group: g.WithDefaults(),
		store: s,
		log:   l.With("group", g.Name),
		board: layout.NewBoard(g.Shards),
	}
	first := make(chan error, 1)
	f := &follower{t: t, keys: layout.For(g), first: first}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.close = cancel
	t.done.Go(func() {
		follow.Run(run, f.config())
		t.turns.wakeAll() // nobody would, from now on
	})
	var err error
	select {
	case err = <-first:
	case <-ctx.Done():
		err = fmt.Errorf("router: first list of group %q: %w", g.Name, context.Cause(ctx))
	}
	if err != nil {
		_ = t.Close()
		return nil, &setupError{err}
	}
	return t, nil
}

// Owner is the member that owns key's shard, and by which epoch; nil and 0 while nobody is known
// to. The Member is shared: treat it as immutable.
func (t *Table) Owner(key string) (*shard.Member, shard.Epoch) {
	o := t.board.Owner(t.group.Of(key))
	if o == nil {
		return nil, 0
	}
	return o.Member, o.Epoch
}

// Age is the time since the store was last heard. With a store that can be reached it stays within some
// seconds, also when nothing changes. A growing Age means that the table may be out of date.
func (t *Table) Age() time.Duration {
	return max(0, t.store.Now()-time.Duration(t.heard.Load()))
}

// Group is the group that the table follows.
func (t *Table) Group() shard.Group { return t.group }

// Close stops following and waits for what runs in the background. The table can still be read, and
// stays as it was. Idempotent; the error is always nil.
func (t *Table) Close() error {
	t.close()
	t.done.Wait()
	return nil
}

// id is what tells this group from others of its name in other stores, or from an earlier one in this; "" while no
// config is shown.
func (t *Table) id() string {
	if id := t.shown.Load(); id != nil {
		return *id
	}
	return ""
}

// members are the group's present ones, oldest first: the first is the planner. They are shared: treat them as immutable.
func (t *Table) members() []shard.Member {
	if who := t.who.Load(); who != nil {
		return *who
	}
	return nil
}

// awaitID is id, after a wait for it of at most timeout: in a group's first moments a node may own
// shards of which its table has not heard.
func (t *Table) awaitID(ctx context.Context, timeout time.Duration) string {
	if id := t.id(); id != "" {
		return id
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		turned := t.turns.on(0) // a new config turns every shard
		if id := t.id(); id != "" {
			return id
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return ""
		}
	}
}

// misfit says why v can't be the group that g, with defaults, declares, nil if it can or if there is no config yet.
func misfit(g shard.Group, v *layout.View) error {
	c := v.Config
	if c.Rev == 0 {
		return nil
	}
	if c.Err != nil {
		return fmt.Errorf("router: config of group %q in the store can't be read: %w", g.Name, c.Err)
	}
	if c.Shards != g.Shards {
		return &owner.ConfigError{Field: "shards", Want: fmt.Sprint(g.Shards), Got: fmt.Sprint(c.Shards)}
	}
	if c.Hash != g.Hash {
		return &owner.ConfigError{Field: "hash", Want: string(g.Hash), Got: string(c.Hash)}
	}
	return nil
}
