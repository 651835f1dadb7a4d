package memkv

import (
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// revision is one revision's changes. Revisions form a list that watches walk without a
// lock: a watch keeps its place for as long as it needs it, and what all have passed is
// garbage. That is the unbounded queue of every watch, at no cost to a commit.
type revision struct {
	rev    int64
	at     time.Time
	events []cas.Event
	before []cas.Entry // what each event replaced; Rev 0: nothing

	next *revision // set before done is closed; nil then if the server was restored
	done chan struct{}
}

// log is the history since the last compaction. Revisions are consecutive, so a revision's
// place in the slice follows from its number.
type log struct {
	revs []*revision // revs[0] is the compacted revision: its state is kept, its changes are not
}

func newLog(rev int64) log {
	return log{revs: []*revision{newRevision(rev)}}
}

// emptyLog is that of a store at revision 1, of which nothing is compacted yet.
func emptyLog() log {
	l := newLog(0)
	close(l.append(newRevision(1), 1).done)
	return l
}

func newRevision(rev int64) *revision {
	return &revision{rev: rev, at: time.Now(), done: make(chan struct{})}
}

func (l *log) tail() *revision { return l.revs[len(l.revs)-1] }
func (l *log) first() int64    { return l.revs[0].rev }

// at returns revision rev, which check has passed.
func (l *log) at(rev int64) *revision { return l.revs[rev-l.first()] }

// check reports whether the state at rev can be told.
func (l *log) check(rev int64) error {
	if rev < l.first() {
		return fmt.Errorf("memkv: revision %d, oldest kept is %d: %w", rev, l.first(), cas.ErrCompacted)
	}
	if rev > l.tail().rev {
		return fmt.Errorf("memkv: revision %d, newest is %d: %w", rev, l.tail().rev, cas.ErrFutureRev)
	}
	return nil
}

// append links r behind the tail, and returns the tail that was: the caller closes its done
// once it holds no lock.
func (l *log) append(r *revision, keep int) *revision {
	last := l.tail()
	last.next = r
	l.revs = append(l.revs, r)
	if len(l.revs) > 2*keep {
		l.drop(r.rev - int64(keep))
	}
	return last
}

func (l *log) drop(rev int64) {
	l.revs = append([]*revision(nil), l.revs[rev-l.first():]...)
}
