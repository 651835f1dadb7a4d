package cas

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"
)

// A line is the calls of Update in this process that want to change one key of one store. They go one after another, in
// the order in which they came: of several that are sent at once all but one come to nothing, and each of those costs
// the store as much as one that does not.
//
// It is a courtesy, and nothing rests on it: that no change is lost, the condition on the key's revision sees to. So nobody
// has to wait behind one that stands still, because its function is slow or the store is away. When one has had the turn for
// turnMost, all go ahead; and so does each that has waited for lineMost, or for half of the time that it has.
type line struct {
	places []*place  // the first has the turn
	since  time.Time // since then
	clock  uint64    // counts arrivals
	left   Entry     // what the one before has stored; Rev 0 if it has not
	sent   uint64    // clock when that was sent
}

const (
	turnMost = 250 * time.Millisecond // longer than a commit takes, unless the store is across an ocean
	lineMost = 2 * time.Second
)

// A place is one call's in its line. nil is that of a call that stands in none.
type place struct {
	line *line
	id   lineID
	came uint64        // on the line's clock
	sent uint64        // its latest commit, on the line's clock
	turn chan struct{} // closed when it may go ahead
}

type lineID struct {
	s   KV
	key string
}

var lines = struct {
	sync.Mutex
	m map[lineID]*line
}{m: make(map[lineID]*line)}

// queue joins the line of s's key. To be followed by leave.
func queue(s KV, key string) *place {
	if !reflect.ValueOf(s).Comparable() {
		return nil // nothing tells whose calls belong together
	}
	p := &place{id: lineID{s, key}, turn: make(chan struct{})}
	lines.Lock()
	defer lines.Unlock()
	l := lines.m[p.id]
	if l == nil {
		l = &line{}
		lines.m[p.id] = l
	}
	l.clock++
	p.line, p.came = l, l.clock
	l.places = append(l.places, p)
	if len(l.places) == 1 {
		l.next()
	}
	return p
}

// next gives the turn to the first.
func (l *line) next() {
	l.since = time.Now()
	close(l.places[0].turn)
}

// await returns nil when p may go ahead, or the cause of ctx's end.
func (p *place) await(ctx context.Context) error {
	if p == nil || p.hasTurn() {
		return nil
	}
	most := time.Now().Add(lineMost)
	if end, ok := ctx.Deadline(); ok {
		most = earlier(most, time.Now().Add(time.Until(end)/2))
	}
	for {
		t := time.NewTimer(time.Until(earlier(most, p.patience())))
		select {
		case <-p.turn:
			t.Stop()
			return nil
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
			if !time.Now().Before(most) {
				return nil
			}
			p.dissolve()
		}
	}
}

func (p *place) hasTurn() bool {
	select {
	case <-p.turn:
		return true
	default:
		return false
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// patience is when the one who has the turn has had it for too long.
func (p *place) patience() time.Time {
	lines.Lock()
	defer lines.Unlock()
	return p.line.since.Add(turnMost)
}

// dissolve lets everybody in the line go ahead, if the one who has the turn has had it for too long. Who comes later forms a
// new one.
func (p *place) dissolve() {
	lines.Lock()
	defer lines.Unlock()
	if p.hasTurn() || time.Since(p.line.since) < turnMost {
		return
	}
	for _, q := range p.line.places[1:] {
		close(q.turn)
	}
	p.line.places = nil
	delete(lines.m, p.id)
}

// known returns what the one before p has stored, if that was sent after p came. Otherwise the key may have been
// changed again, by another process, before p came, and p would read something older than what its caller knows of.
func (p *place) known() (Entry, bool) {
	if p == nil {
		return Entry{}, false
	}
	lines.Lock()
	defer lines.Unlock()
	return p.line.left, p.line.left.Rev != 0 && p.line.sent >= p.came
}

// sending says that p's call sends a commit now.
func (p *place) sending() {
	if p == nil {
		return
	}
	lines.Lock()
	defer lines.Unlock()
	p.sent = p.line.clock
}

// leave lets the next one go ahead, and tells it what p's call has stored: the zero Entry if it has not.
func (p *place) leave(stored Entry) {
	if p == nil {
		return
	}
	lines.Lock()
	defer lines.Unlock()
	l := p.line
	i := slices.Index(l.places, p)
	if i < 0 {
		return // dissolved
	}
	l.places = slices.Delete(l.places, i, i+1)
	switch {
	case len(l.places) == 0:
		delete(lines.m, p.id)
	case i == 0:
		l.left, l.sent = stored, p.sent
		l.next()
	}
}
