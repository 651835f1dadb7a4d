package writer

import (
	"sync"
	"sync/atomic"
)

// place is where a call is.
type place uint8

const (
	outside place = iota // not let in, withdrawn, turned away, or decided: about to be told
	waiting              // for room
	queued
	taken // by the applier: it is, or will be, in a batch
)

// queue holds the calls of one tenure until they are taken. A call leaves it once: taken, withdrawn or turned away, and
// whoever had it leave sees to its caller.
type queue[C, R any] struct {
	limit int
	wake  chan struct{}         // has room for one; sent to only by who finds asleep set
	ended atomic.Pointer[error] // why no batch is to be begun any more

	mu      sync.Mutex // guards the rest, and place and links of each call
	queued  list[C, R]
	waiting list[C, R] // beyond limit, in order; empty while there is room
	closed  error      // why nobody is let in any more
	asleep  bool       // the applier waits for wake
}

func newQueue[C, R any](limit int) *queue[C, R] {
	return &queue[C, R]{limit: limit, wake: make(chan struct{}, 1)}
}

// push lets c in, as queued or waiting, or says why not.
func (q *queue[C, R]) push(c *call[C, R]) (place, error) {
	q.mu.Lock()
	if err := q.closed; err != nil {
		q.mu.Unlock()
		return outside, err
	}
	c.place = queued
	if q.queued.n < q.limit {
		q.queued.push(c)
	} else {
		c.place = waiting
		q.waiting.push(c)
	}
	at := c.place
	wake := q.rouse()
	q.mu.Unlock()
	if wake {
		q.wake <- struct{}{}
	}
	return at, nil
}

// rouse reports whether the caller has to wake the applier, once it has let go of mu.
func (q *queue[C, R]) rouse() (wake bool) {
	wake, q.asleep = q.asleep, false
	return wake
}

// refill moves those who wait to where there is room. Their callers need not be woken for that.
func (q *queue[C, R]) refill() {
	for q.queued.n < q.limit {
		c := q.waiting.pop()
		if c == nil {
			return
		}
		c.place = queued
		q.queued.push(c)
	}
}

// withdraw takes c out if it has not been taken yet, and returns where it was. Of a call that is outside, the one who
// turned it away tells the caller.
func (q *queue[C, R]) withdraw(c *call[C, R]) place {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := c.place
	switch at {
	case waiting:
		q.waiting.remove(c)
		c.place = outside
	case queued:
		q.queued.remove(c)
		c.place = outside
		q.refill()
	}
	return at
}

// withdrawWaiting is withdraw for a call that still waits for room. It reports whether it did.
func (q *queue[C, R]) withdrawWaiting(c *call[C, R]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.place != waiting {
		return false
	}
	q.waiting.remove(c)
	c.place = outside
	return true
}

// take appends up to most calls to buf, in order. It waits until there is one; none comes back once the queue is closed and
// empty. Only the applier calls it.
func (q *queue[C, R]) take(buf []*call[C, R], most int) []*call[C, R] {
	for {
		q.mu.Lock()
		for len(buf) < most {
			c := q.queued.pop()
			if c == nil {
				break
			}
			c.place = taken
			buf = append(buf, c)
		}
		q.refill()
		if len(buf) > 0 || q.closed != nil {
			q.mu.Unlock()
			return buf
		}
		q.asleep = true
		q.mu.Unlock()
		<-q.wake
	}
}

// close lets nobody in any more; those who are in stay.
func (q *queue[C, R]) close(why error) {
	q.mu.Lock()
	if q.closed == nil {
		q.closed = why
	}
	wake := q.rouse()
	q.mu.Unlock()
	if wake {
		q.wake <- struct{}{}
	}
}

// end closes the queue and turns everybody out; what was taken and not begun is not to be either. The caller tells them why.
func (q *queue[C, R]) end(why error) (out []*call[C, R]) {
	q.ended.CompareAndSwap(nil, &why)
	q.close(why)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range []*list[C, R]{&q.queued, &q.waiting} {
		for c := l.pop(); c != nil; c = l.pop() {
			c.place = outside
			out = append(out, c)
		}
	}
	return out
}

// decide takes calls that were taken out of their callers' hands: the applier is about to tell them, and those who give up from
// now on wait for it.
func (q *queue[C, R]) decide(calls []*call[C, R]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range calls {
		c.place = outside
	}
}

// over says why no batch is to be begun any more, or nil.
func (q *queue[C, R]) over() error {
	if why := q.ended.Load(); why != nil {
		return *why
	}
	return nil
}

// list is a doubly linked list of calls: one that is withdrawn leaves no hole behind.
type list[C, R any] struct {
	first, last *call[C, R]
	n           int
}

func (l *list[C, R]) push(c *call[C, R]) {
	c.prev = l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.n++
}

func (l *list[C, R]) pop() *call[C, R] {
	c := l.first
	if c != nil {
		l.remove(c)
	}
	return c
}

func (l *list[C, R]) remove(c *call[C, R]) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.n--
}
