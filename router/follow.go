package router

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/follow"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

const (
	probeEvery  = 5 * time.Second // so Age stays below two of them while the store answers
	digestEvery = time.Minute
	listTimeout = 10 * time.Second // a list of a large group takes its time
)

// follower keeps a Table's board up. One goroutine uses it.
type follower struct {
	t     *Table
	keys  layout.Keys
	first chan error // Open's: nil once the first list is in

	view    *layout.View // the store's state, shown or not
	touched layout.Touched
	shown   state // the newest that was shown
	refused bool  // the view is older than what was shown: that stays
	unfit   bool  // the store's config is not the group's: nothing is shown
}

// state places a view in a store's history.
type state struct {
	rev     int64
	cluster uint64
	lineage int
	config  bool // there was one, so epochs were granted
}

func (f *follower) config() follow.Config {
	return follow.Config{
		Store:   f.t.store,
		Prefix:  f.keys.Prefix(),
		Listed:  f.listed,
		Changed: f.changed,
		Broken:  f.broken,
		Probe:   probeEvery,
		Digest:  digestEvery,
		Timeout: listTimeout,
	}
}

// listed makes a list the view.
func (f *follower) listed(s cas.Snapshot) {
	f.view = layout.Load(f.keys, f.t.group.Shards, s)
	if first := f.first; first != nil {
		f.first = nil
		err := misfit(f.t.group, f.view)
		defer func() { first <- err }() // Open returns once the list is shown
		if err != nil {
			return
		}
	}
	err := f.backwards()
	f.refused = err != nil
	if f.refused {
		f.t.log.Error("router: the store went back; serving what was known before", "err", err)
		return
	}
	f.show()
}

// changed brings view and board to c, a whole revision.
func (f *follower) changed(c cas.Change) {
	f.view.Apply(c, &f.touched)
	if f.refused {
		if !f.touched.Config || f.backwards() != nil {
			return
		}
		f.refused = false
	}
	if f.touched.Config {
		f.show()
		return
	}
	f.note()
	if f.unfit {
		return
	}
	f.t.board.Publish(f.view, &f.touched)
	if len(f.touched.Members) > 0 {
		f.showMembers()
		f.t.turns.wakeAll()
	} else {
		f.t.turns.wake(f.touched.Shards)
	}
}

// broken is told why there is nothing new for now.
func (f *follower) broken(err error) {
	if f.first != nil && (errors.Is(err, cas.ErrDenied) || errors.Is(err, cas.ErrClosed)) {
		f.first <- err // waiting mends neither
		f.first = nil
	}
	f.t.log.Warn("router: can't follow the store, trying again", "err", err)
}

// backwards says why the view must not replace what was shown. A store that was restored from a backup
// may show revisions that were there before, with other content; from then on only a raised
// lineage makes epochs grow again.
func (f *follower) backwards() error {
	was, now := f.shown, f.view
	if !was.config || now.Config.Err == nil && now.Config.Lineage > was.lineage {
		return nil
	}
	const mend = "was it restored from a backup? Raise the group's lineage"
	switch {
	case now.Rev < was.rev:
		return fmt.Errorf("router: revision went from %d back to %d: %s", was.rev, now.Rev, mend)
	case now.Cluster != was.cluster:
		return fmt.Errorf("router: cluster changed from %x to %x: %s", was.cluster, now.Cluster, mend)
	}
	return nil
}

// show shows all of the view, or nothing if it does not fit the group.
func (f *follower) show() {
	f.note()
	err := misfit(f.t.group, f.view)
	f.unfit = err != nil
	if f.unfit {
		f.t.log.Error("router: the group in the store is another than this program's; showing no owners", "err", err)
		f.t.shown.Store(nil)
		f.t.who.Store(nil)
		f.t.board.PublishAll(layout.NewView(f.keys, f.t.group.Shards))
	} else {
		id := f.view.Config.ID
		f.t.shown.Store(&id)
		f.t.board.PublishAll(f.view)
		f.showMembers()
	}
	f.t.turns.wakeAll()
}

// showMembers shows who is there. A member whose record can't be read is shown by its ID.
func (f *follower) showMembers() {
	ids := slices.SortedFunc(maps.Keys(f.view.Members), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.view.Members[a].Created, f.view.Members[b].Created), cmp.Compare(a, b))
	})
	who := make([]shard.Member, len(ids))
	for i, id := range ids {
		who[i] = f.view.Members[id].Member.Member
		who[i].ID = id
	}
	f.t.who.Store(&who)
}

// note takes note that the store was heard, and how far the view is.
func (f *follower) note() {
	f.t.heard.Store(int64(f.t.store.Now()))
	f.shown.rev, f.shown.cluster = f.view.Rev, f.view.Cluster
	if c := f.view.Config; c.Rev != 0 && c.Err == nil {
		f.shown.lineage, f.shown.config = c.Lineage, true
	}
}
