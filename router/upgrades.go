package router

import (
	"context"
	"net"
	"sync"
)

// upgrades are the connections that were upgraded, to WebSockets say, and are relayed to their owner. A
// server that is shut down no longer counts them as its own and leaves them running, so Serve ends
// them after it. The zero value is ready for use; safe for concurrent use.
type upgrades struct {
	running sync.WaitGroup

	mu    sync.Mutex // guards the rest
	over  bool
	next  int
	close map[int]func()
}

type upgradesKey struct{}

// base gives the requests of a server, whose BaseContext was inner, a way to their upgrades.
func (u *upgrades) base(inner func(net.Listener) context.Context) func(net.Listener) context.Context {
	return func(l net.Listener) context.Context {
		ctx := context.Background()
		if inner != nil {
			ctx = inner(l)
		}
		return context.WithValue(ctx, upgradesKey{}, u)
	}
}

// upgradesOf is nil for a request of a server that Serve does not run.
func upgradesOf(ctx context.Context) *upgrades {
	u, _ := ctx.Value(upgradesKey{}).(*upgrades)
	return u
}

// add notes an upgraded connection, which closing it must end, and returns what to call when it has ended. A
// connection that comes too late is closed at once.
func (u *upgrades) add(closing func()) (ended func()) {
	if u == nil {
		return func() {}
	}
	u.mu.Lock()
	if u.over {
		u.mu.Unlock()
		closing()
		return func() {}
	}
	defer u.mu.Unlock()
	if u.close == nil {
		u.close = make(map[int]func())
	}
	id := u.next
	u.next++
	u.close[id] = closing
	u.running.Add(1)
	return func() {
		u.mu.Lock()
		delete(u.close, id)
		u.mu.Unlock()
		u.running.Done()
	}
}

// end closes all, also those that are yet to come, and waits for their end.
func (u *upgrades) end() {
	u.mu.Lock()
	u.over = true
	all := make([]func(), 0, len(u.close))
	for _, closing := range u.close {
		all = append(all, closing)
	}
	u.mu.Unlock()
	var closed sync.WaitGroup
	for _, closing := range all {
		closed.Go(closing) // TLS may take 5 s to say goodbye
	}
	closed.Wait()
	u.running.Wait()
}
