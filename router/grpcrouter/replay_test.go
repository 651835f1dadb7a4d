package grpcrouter_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
	"github.com/tenure-go/tenure/shard"
)

// proxy passes connections on to a server, until it cuts them all.
type proxy struct {
	net.Listener
	to string

	done  sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
	taken atomic.Int64
}

func newProxy(t *testing.T, to string) *proxy {
	p := &proxy{Listener: listen(t), to: to}
	p.done.Go(func() {
		for {
			in, err := p.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.to)
			if err != nil {
				t.Error(err)
				return
			}
			p.taken.Add(1)
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			p.done.Go(func() { _, _ = io.Copy(out, in); out.Close() })
			p.done.Go(func() { _, _ = io.Copy(in, out); in.Close() })
		}
	})
	t.Cleanup(func() { p.Close(); p.cut(); p.done.Wait() })
	return p
}

// cut resets all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
	p.conns = nil
}

// retries is the configuration by which gRPC sends calls again by itself.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.01s",
	"maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE", "UNKNOWN", "CANCELLED", "INTERNAL"]}}]}`

// The owner has applied the call when the connection is reset: it must not be sent again, by anybody, and nobody may call it
// "not applied", or Unavailable, which clients take as leave to send it again.
func TestAppliedThenReset(t *testing.T) {
	cut := make(chan func(), 1)
	// The first time the connection is cut under the handler; a second time, which must not be, it answers.
	apply := func(ctx context.Context) error {
		select {
		case f := <-cut:
			f()
			<-ctx.Done()
		default:
		}
		return ctx.Err()
	}
	n := start(t, setup{
		client:  grpcrouter.Config{Dial: []grpc.DialOption{grpc.WithDefaultServiceConfig(retries)}},
		do:      func(ctx context.Context, _ *echopb.Request) error { return apply(ctx) },
		streams: func(ss grpc.ServerStream, _ *echopb.Request) error { return apply(ss.Context()) },
	})
	at := n.Owner("alice")
	p := newProxy(t, n.addrs[at])
	n.address[n.Nodes[at].Status().Self.ID] = p.Addr().String()
	ways := n.ways("alice")
	delete(ways, "local")
	ways["client"] = n.client(byKey, grpcrouter.Config{Dial: []grpc.DialOption{grpc.WithDefaultServiceConfig(retries)}})
	for way, conn := range ways {
		for kind, call := range kinds {
			before := n.times("alice")
			cut <- p.cut
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err := call(ctx, echopb.NewEchoClient(conn), "alice")
			cancel()
			if code := code(err); code != codes.Unknown || grpcrouter.Outcome(err) != cas.Uncertain {
				t.Errorf("%s %s: got %v, %v; want Unknown, uncertain", way, kind, err, grpcrouter.Outcome(err))
			}
			if got := n.times("alice") - before; got != 1 {
				t.Errorf("%s %s: applied %d times, want once", way, kind, got)
			}
		}
	}
}

// A configured retry would send a handler's own Unavailable again.
func TestConfiguredRetriesAreOff(t *testing.T) {
	n := start(t, setup{do: func(context.Context, *echopb.Request) error {
		return status.Error(codes.Unavailable, "after it was applied")
	}})
	c := n.client(byKey, grpcrouter.Config{Dial: []grpc.DialOption{grpc.WithDefaultServiceConfig(retries)}})
	_, err := echopb.NewEchoClient(c).Unary(t.Context(), &echopb.Request{Key: "alice"})
	if status.Code(err) != codes.Unavailable || cas.OutcomeOf(err) != cas.Uncertain {
		t.Errorf("got %v, %v; want the handler's Unavailable, uncertain", err, cas.OutcomeOf(err))
	}
	if got := n.times("alice"); got != 1 {
		t.Errorf("applied %d times, want once", got)
	}
}

// Nobody listens there: that was never sent, and Tries bounds it.
func TestUnreachedIsDefinite(t *testing.T) {
	n := start(t, setup{n: 1})
	l := listen(t)
	dead := l.Addr().String()
	l.Close()
	var asked atomic.Int64
	c := n.client(byKey, grpcrouter.Config{Tries: 3, Target: func(shard.Member) string { asked.Add(1); return dead }})
	for kind, call := range kinds {
		_, err := call(t.Context(), echopb.NewEchoClient(c), "alice")
		if code(err) != codes.Unavailable || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: got %v, %v; want Unavailable, not applied", kind, err, cas.OutcomeOf(err))
		}
	}
}

// The owner comes back at its address between two attempts.
func TestUnreachedIsTriedAgain(t *testing.T) {
	n := start(t, setup{n: 1})
	l := listen(t)
	dead := l.Addr().String()
	l.Close()
	for kind, call := range kinds {
		var asked atomic.Int64
		c := n.client(byKey, grpcrouter.Config{Target: func(m shard.Member) string {
			if asked.Add(1) < 2 {
				return dead
			}
			return n.address[m.ID]
		}})
		if _, err := call(t.Context(), echopb.NewEchoClient(c), "alice"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A stream that has sent much before it is refused is replayed whole.
func TestLongStreamIsReplayed(t *testing.T) {
	n := start(t, setup{refuse: true})
	var wrong atomic.Bool
	wrong.Store(true)
	for _, replay := range []int{1, 10 << 10, 1 << 20} {
		conf := n.misled(&wrong)
		conf.Replay = replay
		s, err := echopb.NewEchoClient(n.client(byKey, conf)).Up(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for i := range 100 {
			part := strings.Repeat(string(rune('a'+i%26)), 2000)
			want.WriteString(part)
			if err := s.Send(&echopb.Request{Key: "alice", Payload: []byte(part)}); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		r, err := s.CloseAndRecv()
		if err != nil || r.N != 100 || string(r.Payload) != want.String() {
			t.Errorf("replay %d: got %d messages of %d bytes, %v; want 100 of %d, in order", replay, r.GetN(), len(r.GetPayload()), err, want.Len())
		}
	}
}

// Until a stream is admitted no more than Replay is sent: the rest could not be sent again.
func TestUnadmittedStreamHoldsBack(t *testing.T) {
	l := listen(t)
	release := make(chan struct{})
	defer close(release)
	serve(t, l, echopb.UnimplementedEchoServer{}, grpc.StreamInterceptor(
		func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			select {
			case <-release:
			case <-ss.Context().Done():
			}
			return status.Error(codes.Aborted, "over")
		}))
	n := start(t, setup{n: 1})
	c := n.client(byKey, grpcrouter.Config{Replay: 1000, Target: func(shard.Member) string { return l.Addr().String() }})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := echopb.NewEchoClient(c).Up(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s.Send(&echopb.Request{Key: "alice", Payload: make([]byte, 300)}) == nil {
			sent.Add(1)
		}
	}()
	wait(t, "the first messages", func() bool { return sent.Load() == 4 })
	cancel()
	<-done
	if got := sent.Load(); got != 4 {
		t.Errorf("sent %d messages of 300 bytes, want 4, the first above 1000", got)
	}
}
