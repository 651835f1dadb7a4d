package memkv

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// watch walks the server's list of revisions in a goroutine of its own.
type watch struct {
	client *Client
	prefix string
	out    chan cas.Change
	asked  chan struct{} // holds one request for progress

	once   sync.Once
	broken chan struct{} // closed by stop, after reason is set
	reason error
}

// Watch is cas.Watcher. A watch from a revision that the store has not reached yet is silent
// until it has.
func (c *Client) Watch(ctx context.Context, prefix string, after int64) <-chan cas.Change {
	w := &watch{
		client: c,
		prefix: prefix,
		out:    make(chan cas.Change, 1),
		asked:  make(chan struct{}, 1),
		broken: make(chan struct{}),
	}
	c.mu.Lock()
	open := c.watches != nil
	if open {
		c.watches[w] = struct{}{}
		c.wg.Add(1)
	}
	c.mu.Unlock()
	if !open {
		w.out <- cas.Change{Err: fmt.Errorf("memkv: watch of %q: %w", prefix, cas.ErrClosed)}
		close(w.out)
		return w.out
	}
	// The place is taken now, and not when the goroutine gets to run: what is committed or
	// compacted after Watch has returned concerns a watch that is there.
	var at *revision
	var err error
	if !c.link.Load().cut {
		at, err = w.place(after)
	}
	go func() {
		defer c.wg.Done()
		if at == nil && err == nil {
			at, err = w.seek(ctx, after)
		}
		if err == nil {
			err = w.run(ctx, at, after)
		}
		w.end(ctx, err)
	}()
	return w.out
}

// stop makes the watch end with err, once it has delivered what it is about to deliver.
func (w *watch) stop(err error) {
	w.once.Do(func() {
		w.reason = err
		close(w.broken)
	})
}

func (w *watch) ask() {
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

// end delivers the last change. Its receiver may be gone once ctx has ended or the client was
// closed, so then it takes the place of one that was not received: w.out never blocks here.
func (w *watch) end(ctx context.Context, err error) {
	c := w.client
	c.mu.Lock()
	delete(c.watches, w)
	c.mu.Unlock()

	last := cas.Change{Err: fmt.Errorf("memkv: watch of %q: %w", w.prefix, err)}
	select {
	case w.out <- last:
		close(w.out)
		return
	case <-ctx.Done():
	case <-c.closed:
	}
	select {
	case <-w.out:
	default:
	}
	w.out <- last
	close(w.out)
}

// run delivers what comes behind at and after revision after, until it can't.
func (w *watch) run(ctx context.Context, at *revision, after int64) (err error) {
	for err == nil {
		link := w.client.link.Load()
		select {
		case <-at.done:
			switch {
			case link.cut, at.next == nil:
				at, err = w.seek(ctx, max(after, at.rev))
			case at.next.rev <= after:
				at = at.next
			default:
				var sent bool
				if sent, err = w.deliver(ctx, at.next, link); sent {
					at = at.next
					after = at.rev
				}
			}
			continue
		default:
		}
		select {
		case <-at.done:
		case <-link.flipped:
		case <-w.asked:
			if !link.cut {
				err = w.send(ctx, cas.Change{Rev: at.rev})
			}
		case <-w.broken:
			err = w.reason
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-w.client.closed:
			err = cas.ErrClosed
		}
	}
	return err
}

// seek waits until the client is not cut off, and then finds the watch's place: the latest
// revision kept that is not above rev. It does so at the start, after a cut, and after the
// server was restored, as a client of etcd that connects anew.
func (w *watch) seek(ctx context.Context, rev int64) (*revision, error) {
	for {
		link := w.client.link.Load()
		if !link.cut {
			break
		}
		select {
		case <-link.flipped:
		case <-w.broken:
			return nil, w.reason
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-w.client.closed:
			return nil, cas.ErrClosed
		}
	}
	return w.place(rev)
}

func (w *watch) place(rev int64) (*revision, error) {
	s := w.client.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if rev >= s.log.tail().rev {
		return s.log.tail(), nil
	}
	if rev < s.log.first() {
		return nil, fmt.Errorf("from revision %d, oldest kept is %d: %w", rev+1, s.log.first()+1, cas.ErrCompacted)
	}
	return s.log.at(rev), nil
}

// deliver sends what of r concerns the watch, unless the link goes down first.
func (w *watch) deliver(ctx context.Context, r *revision, link *link) (sent bool, err error) {
	events := w.filter(r.events)
	if len(events) == 0 {
		return true, nil
	}
	if lag := time.Duration(w.client.lag.Load()); lag > 0 {
		t := time.NewTimer(lag - time.Since(r.at))
		defer t.Stop()
		select {
		case <-t.C:
		case <-link.flipped:
			return false, nil
		case <-w.broken:
			return false, w.reason
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-w.client.closed:
			return false, cas.ErrClosed
		}
	}
	return true, w.send(ctx, cas.Change{Rev: r.rev, Events: events})
}

func (w *watch) send(ctx context.Context, change cas.Change) error {
	select {
	case w.out <- change:
		return nil
	case <-w.broken:
		return w.reason
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.client.closed:
		return cas.ErrClosed
	}
}

// filter returns events themselves if all of them pass: they are shared by all watches.
func (w *watch) filter(events []cas.Event) []cas.Event {
	drop := w.client.drop.Load()
	pass := func(e *cas.Event) bool {
		return strings.HasPrefix(e.Key, w.prefix) && (drop == nil || !(*drop)(*e))
	}
	for i := range events {
		if pass(&events[i]) {
			continue
		}
		some := append([]cas.Event(nil), events[:i]...)
		for j := i + 1; j < len(events); j++ {
			if pass(&events[j]) {
				some = append(some, events[j])
			}
		}
		return some
	}
	return events
}
