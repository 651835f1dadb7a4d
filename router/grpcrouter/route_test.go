package grpcrouter_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

// Each kind of call runs at its owner, in the tenure, whichever way it comes there.
func TestCallsRunAtOwner(t *testing.T) {
	n := start(t, setup{n: 3})
	for _, key := range []string{"alice", "bob", "carol", "dave"} {
		want := n.Nodes[n.Owner(key)].Status().Self.ID
		for way, conn := range n.ways(key) {
			for kind, call := range kinds {
				if got, err := call(t.Context(), echopb.NewEchoClient(conn), key); got != want || err != nil {
					t.Errorf("%s %s, %s: ran at %q, %v; want %q", way, kind, key, got, err, want)
				}
			}
		}
	}
}

// Forwarded tells the second hop from the first.
func TestForwarded(t *testing.T) {
	var got atomic.Bool
	n := start(t, setup{do: func(ctx context.Context, _ *echopb.Request) error {
		got.Store(grpcrouter.Forwarded(ctx))
		return nil
	}})
	for way, conn := range n.ways("alice") {
		if _, err := kinds["unary"](t.Context(), echopb.NewEchoClient(conn), "alice"); err != nil {
			t.Fatal(err)
		}
		if want := way != "local"; got.Load() != want {
			t.Errorf("%s: Forwarded is %v, want %v", way, got.Load(), want)
		}
	}
	if grpcrouter.Forwarded(t.Context()) {
		t.Error("Forwarded of any context is true, want false")
	}
}

// load makes calls of all kinds, by all ways, until it is stopped.
type load struct {
	t     *testing.T
	stop  chan struct{}
	done  sync.WaitGroup
	calls atomic.Int64
	acked map[string]*atomic.Int64
}

func startLoad(t *testing.T, n *nodes, keys int) *load {
	conns := []grpc.ClientConnInterface{n.client(byKey, grpcrouter.Config{})}
	for i := range n.Nodes {
		conns = append(conns, n.plain(i))
	}
	return startLoadThrough(t, keys, conns...)
}

func startLoadThrough(t *testing.T, keys int, conns ...grpc.ClientConnInterface) *load {
	l := &load{t: t, stop: make(chan struct{}), acked: make(map[string]*atomic.Int64)}
	names := []string{"unary", "down", "up", "both"}
	for i := range keys {
		key := fmt.Sprintf("account-%d", i)
		acked := new(atomic.Int64)
		l.acked[key] = acked
		l.done.Go(func() {
			for at := 0; ; at++ {
				select {
				case <-l.stop:
					return
				default:
				}
				kind, way := names[at%len(names)], at/len(names)%len(conns)
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				if _, err := kinds[kind](ctx, echopb.NewEchoClient(conns[way]), key); err != nil {
					t.Errorf("%s of %s by way %d: %v", kind, key, way, err)
				} else {
					acked.Add(1)
				}
				cancel()
				l.calls.Add(1)
			}
		})
	}
	return l
}

func (l *load) more(n int64) {
	l.t.Helper()
	goal := l.calls.Load() + n
	wait(l.t, fmt.Sprintf("%d more calls", n), func() bool { return l.calls.Load() >= goal })
}

func (l *load) end() {
	close(l.stop)
	l.done.Wait()
}

func TestI10_MovesFailNoCall(t *testing.T) {
	n := start(t, setup{n: 3})
	l := startLoad(t, n, 8)
	l.more(100)
	for i := range 50 {
		key := fmt.Sprintf("account-%d", i%8)
		n.Move(key, (n.Owner(key)+1)%3)
		l.more(8)
	}
	l.end()
	for key, acked := range l.acked {
		if got, want := int64(n.times(key)), acked.Load(); got != want || got == 0 {
			t.Errorf("%s: applied %d times, acknowledged %d; want the same, and more than none", key, got, want)
		}
	}
}
