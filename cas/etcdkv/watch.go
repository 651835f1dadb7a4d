package etcdkv

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tenure-go/tenure/cas"
)

// watch is one Watch. It has a gRPC stream of its own: etcd answers a request for progress
// only when every watch on the stream is up to date, so on a shared stream one that lags
// would silence all.
//
// It does not go through the client's own Watch for a second reason. etcd reports no
// progress to a watch that starts above the store's revision, and a client's watch that
// reconnects does start there: on a store that nobody writes to it would then be silent for
// ever, and a node that demands progress with each renewal would take itself for blind. So
// a watch here starts, each time, at the revision that it has reached, and skips what it has.
type watch struct {
	store  *Store
	prefix string
	out    chan cas.Change
	asked  chan struct{} // holds one request for progress
	rev    int64         // reached; changes up to here were delivered

	// cluster is the one that was listed, or that answered first. A store that was restored from a backup is another
	// one, in which the revisions after rev are not what follows on rev: a node that was paused meanwhile would take them
	// for its own cluster's and believe in claims that were given anew.
	cluster uint64

	changes int // delivered
}

// Watch is cas.Watcher. It returns at once, and connects in the background. The first events
// may come up to 100 ms late, which is how often etcd serves watches that start in the past. A
// watch that meets another cluster than the one listed last ends, and the next List tells.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) <-chan cas.Change {
	w := &watch{
		store:   s,
		prefix:  prefix,
		out:     make(chan cas.Change, 1),
		asked:   make(chan struct{}, 1),
		rev:     after,
		cluster: s.cluster.Load(),
	}
	s.mu.Lock()
	open := s.watches != nil
	if open {
		s.watches[w] = struct{}{}
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if !open {
		w.out <- cas.Change{Err: w.failed(cas.ErrClosed)}
		close(w.out)
		return w.out
	}
	go func() {
		defer s.wg.Done()
		w.end(ctx, w.run(ctx))
	}()
	return w.out
}

// Progress is cas.Watcher. It does not wait until the requests are out.
func (s *Store) Progress(ctx context.Context) error {
	if err := s.open(ctx, "progress"); err != nil {
		return err
	}
	s.mu.Lock()
	watches := slices.Collect(maps.Keys(s.watches))
	s.mu.Unlock()
	for _, w := range watches {
		w.remember()
	}
	return nil
}

// remember notes that progress is wanted.
func (w *watch) remember() {
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

func (w *watch) failed(err error) error {
	return fmt.Errorf("etcdkv: watch of %q after revision %d: %w", w.prefix, w.rev, err)
}

// end delivers the last change. Its receiver may be gone once ctx has ended or the store was
// closed, so then it takes the place of one that was not received: w.out never blocks here.
func (w *watch) end(ctx context.Context, err error) {
	s := w.store
	s.mu.Lock()
	delete(s.watches, w)
	s.mu.Unlock()

	last := cas.Change{Err: w.failed(err)}
	select {
	case w.out <- last:
		close(w.out)
		return
	case <-ctx.Done():
	case <-s.life.Done():
	}
	select {
	case <-w.out:
	default:
	}
	w.out <- last
	close(w.out)
}

// ended is why the watch should end, nil if it should not.
func (w *watch) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.store.life.Err() != nil {
		return cas.ErrClosed
	}
	return nil
}

func (w *watch) send(ctx context.Context, c cas.Change) error {
	select {
	case w.out <- c:
		w.rev = c.Rev
		w.changes++
		return nil
	case <-ctx.Done():
	case <-w.store.life.Done():
	}
	return w.ended(ctx)
}
