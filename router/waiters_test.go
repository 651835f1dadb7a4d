package router

import "testing"

func TestWaitersWakeByShard(t *testing.T) {
	var w waiters
	one, same, two := w.on(1), w.on(1), w.on(2)
	w.wake([]int{0, 1, 1})
	for i, c := range []struct {
		ch   <-chan struct{}
		want bool
	}{{one, true}, {same, true}, {two, false}, {w.on(1), false}} {
		select {
		case <-c.ch:
			if !c.want {
				t.Errorf("waiter %d: woken, want it to wait", i)
			}
		default:
			if c.want {
				t.Errorf("waiter %d: waits, want it woken", i)
			}
		}
	}
	w.wakeAll()
	<-two
	if n := w.some.Load(); n != 0 {
		t.Errorf("left waiting: got %d, want 0", n)
	}
}
