package grpcrouter_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
	"github.com/tenure-go/tenure/shard"
)

var accounts = shard.Group{Name: "accounts", Shards: 16}

var byKey = grpcrouter.Field("key")

// ready is a handler without state.
func ready(ctx context.Context, t *owner.Tenure) error {
	t.Ready()
	<-ctx.Done()
	return nil
}

// nodes is a cluster with an echo server at each of its nodes, on loopback.
type nodes struct {
	*ownertest.Cluster
	t       testing.TB
	address map[string]string
	addrs   []string
	servers []*grpc.Server
	clients []*grpcrouter.Client // by which nodes forward
	echo    []*echo
}

// setup says how start differs from the plainest.
type setup struct {
	n       int
	owner   owner.Config
	client  grpcrouter.Config
	server  []grpc.ServerOption // before Options
	refuse  bool                // no forwarding
	do      func(ctx context.Context, r *echopb.Request) error
	streams func(grpc.ServerStream, *echopb.Request) error
	key     grpcrouter.KeyFunc
	inside  []grpc.ServerOption // after Options
}

func start(t testing.TB, s setup) *nodes {
	t.Helper()
	if s.n == 0 {
		s.n = 2
	}
	if s.key == nil {
		s.key = byKey
	}
	n := &nodes{Cluster: ownertest.Start(t, s.n, accounts, ready, s.owner), t: t, address: make(map[string]string)}
	var listeners []net.Listener
	for _, node := range n.Nodes {
		l := listen(t)
		listeners = append(listeners, l)
		n.addrs = append(n.addrs, l.Addr().String())
		n.address[node.Status().Self.ID] = l.Addr().String()
	}
	for i, node := range n.Nodes {
		var via *grpcrouter.Client
		if !s.refuse {
			via = n.client(s.key, s.client)
		}
		n.clients = append(n.clients, via)
		opts := append(append(s.server, grpcrouter.Options(node, s.key, via)...), s.inside...)
		e := &echo{t: t, id: node.Status().Self.ID, do: s.do, streams: s.streams, applied: make(map[string]int)}
		n.echo = append(n.echo, e)
		n.servers = append(n.servers, serve(t, listeners[i], e, opts...))
	}
	return n
}

func listen(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func serve(t testing.TB, l net.Listener, e echopb.EchoServer, opts ...grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(opts...)
	echopb.RegisterEchoServer(s, e)
	healthpb.RegisterHealthServer(s, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return s
}

func (n *nodes) open(g shard.Group) *router.Table {
	table, err := router.Open(context.Background(), n.Store, g, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { table.Close() })
	return table
}

// client is a Client with a table of its own.
func (n *nodes) client(key grpcrouter.KeyFunc, c grpcrouter.Config) *grpcrouter.Client {
	n.t.Helper()
	if c.Target == nil {
		c.Target = func(m shard.Member) string { return n.address[m.ID] }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(n.t.Output(), nil))
	}
	return n.clientOf(accounts, key, c)
}

// clientOf is client of any group in the store.
func (n *nodes) clientOf(g shard.Group, key grpcrouter.KeyFunc, c grpcrouter.Config) *grpcrouter.Client {
	n.t.Helper()
	client, err := grpcrouter.NewClient(n.open(g), key, c)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { client.Close() })
	return client
}

// plain is a connection to node i that knows nothing of owners.
func (n *nodes) plain(i int, opts ...grpc.DialOption) *grpc.ClientConn {
	return dial(n.t, n.addrs[i], opts...)
}

func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// other is a node that does not own key.
func (n *nodes) other(key string) int { return (n.Owner(key) + 1) % len(n.Nodes) }

// ways are how a call can come to its owner.
func (n *nodes) ways(key string) map[string]grpc.ClientConnInterface {
	return map[string]grpc.ClientConnInterface{
		"client":    n.client(byKey, grpcrouter.Config{}),
		"forwarded": n.plain(n.other(key)),
		"local":     n.plain(n.Owner(key)),
	}
}

// wait is for a condition that other goroutines bring about.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20s in vain for: %s", what)
		}
		<-tick.C
	}
}

// counter counts calls that come to a server.
type counter struct{ n atomic.Int64 }

func (c *counter) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			c.n.Add(1)
			return h(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			c.n.Add(1)
			return h(srv, ss)
		}),
	}
}

// code is that of the status in err, wrapped or not.
func code(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	s, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err)
	if !ok {
		return codes.Unknown
	}
	return s.GRPCStatus().Code()
}
