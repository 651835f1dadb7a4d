package router

import (
	"sync"
	"sync/atomic"
)

// waiters wakes requests that wait for a shard to change hands. No goroutine runs for a request.
// The zero value is ready for use; safe for concurrent use.
type waiters struct {
	some atomic.Int64 // len(by): spares the table's follower the lock while nobody waits

	mu sync.Mutex // guards by
	by map[int]chan struct{}
}

// on returns a channel that closes at the first change of shard s that is published after the
// call. Look at the table again after calling on, or a change just before it is missed.
func (w *waiters) on(s int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch, ok := w.by[s]
	if !ok {
		if w.by == nil {
			w.by = make(map[int]chan struct{})
		}
		ch = make(chan struct{})
		w.by[s] = ch
		w.some.Store(int64(len(w.by)))
	}
	return ch
}

// wake wakes those who wait for one of shards, once the change can be read.
func (w *waiters) wake(shards []int) {
	if w.some.Load() == 0 {
		return
	}
	var woken []chan struct{}
	w.mu.Lock()
	for _, s := range shards {
		if ch, ok := w.by[s]; ok {
			woken = append(woken, ch)
			delete(w.by, s)
		}
	}
	w.some.Store(int64(len(w.by)))
	w.mu.Unlock()
	for _, ch := range woken {
		close(ch)
	}
}

// wakeAll wakes everybody.
func (w *waiters) wakeAll() {
	w.mu.Lock()
	woken := w.by
	w.by = nil
	w.some.Store(0)
	w.mu.Unlock()
	for _, ch := range woken {
		close(ch)
	}
}
