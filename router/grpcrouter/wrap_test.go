package grpcrouter_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

// wrapped is a server behind Wrap that keeps calls until release is closed.
func wrapped(t *testing.T) (w router.Server, conn *grpc.ClientConn, entered, release chan struct{}, served chan error) {
	entered, release, served = make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	s := grpc.NewServer(grpcrouter.Options(nil, func(context.Context, string, any) (string, error) { return "", grpcrouter.ErrUnrouted }, nil)...)
	echopb.RegisterEchoServer(s, &held{entered: entered, release: release})
	w = grpcrouter.Wrap(s)
	l := listen(t)
	go func() { served <- w.Serve(l) }()
	return w, dial(t, l.Addr().String()), entered, release, served
}

type held struct {
	echopb.UnimplementedEchoServer
	entered, release chan struct{}
}

func (h *held) Unary(ctx context.Context, _ *echopb.Request) (*echopb.Reply, error) {
	h.entered <- struct{}{}
	select {
	case <-h.release:
		return &echopb.Reply{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestShutdownWaitsForCalls(t *testing.T) {
	w, conn, entered, release, served := wrapped(t)
	result := make(chan error, 1)
	go func() {
		_, err := echopb.NewEchoClient(conn).Unary(context.Background(), &echopb.Request{})
		result <- err
	}()
	<-entered
	down := make(chan error, 1)
	go func() { down <- w.Shutdown(context.Background()) }()
	wait(t, "new calls to be refused", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := echopb.NewEchoClient(conn).Down(ctx, &echopb.Request{})
		return err != nil || conn.GetState().String() != "READY"
	})
	select {
	case err := <-down:
		t.Fatalf("Shutdown returned %v while a call was under way", err)
	default:
	}
	close(release)
	if err := <-result; err != nil {
		t.Errorf("the call: got %v, want it finished", err)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestShutdownCutsOffAtItsEnd(t *testing.T) {
	w, conn, entered, _, served := wrapped(t)
	result := make(chan error, 1)
	go func() {
		_, err := echopb.NewEchoClient(conn).Unary(context.Background(), &echopb.Request{})
		result <- err
	}()
	<-entered
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := w.Shutdown(ctx); !errors.Is(err, enough) {
		t.Errorf("Shutdown: got %v, want the context's cause", err)
	}
	if err := <-result; code(err) != codes.Unavailable {
		t.Errorf("the call: got %v, want it cut off", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestShutdownBeforeServe(t *testing.T) {
	w := grpcrouter.Wrap(grpc.NewServer())
	if err := w.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := w.Serve(listen(t)); err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

// process is one of several that router.Serve runs.
type process struct {
	addr string
	node *owner.Node
	stop context.CancelFunc
	done chan error
}

func run(t *testing.T, server *memkv.Server, id string, echoes func(string) *echo) *process {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := server.Client()
	node, err := owner.New(store, accounts, ready, owner.Config{
		ID: id, Address: l.Addr().String(), TTL: 2 * time.Second, Settle: 50 * time.Millisecond, MinMembers: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	table, err := router.Open(t.Context(), store, accounts, nil)
	if err != nil {
		t.Fatal(err)
	}
	peers, err := grpcrouter.NewClient(table, byKey, grpcrouter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpcrouter.Options(node, byKey, peers)...)
	echopb.RegisterEchoServer(s, echoes(id))
	ctx, stop := context.WithCancel(context.Background())
	p := &process{addr: l.Addr().String(), node: node, stop: stop, done: make(chan error, 1)}
	go func() {
		err := router.Serve(ctx, node, router.ServeConfig{Linger: 2 * time.Second}, router.Endpoint{Server: grpcrouter.Wrap(s), Listener: l})
		peers.Close()
		table.Close()
		store.Close()
		p.done <- err
	}()
	return p
}

// A process that ends fails no call that comes through it until it is gone, nor any other.
func TestI10_LeaveFailsNoCall(t *testing.T) {
	server := memkv.NewServer(memkv.Config{})
	var all []*process
	n := &nodes{t: t}
	for i := range 3 {
		p := run(t, server, fmt.Sprintf("n%d", i), func(id string) *echo {
			e := &echo{t: t, id: id, applied: make(map[string]int)}
			n.echo = append(n.echo, e)
			return e
		})
		all = append(all, p)
		n.addrs = append(n.addrs, p.addr)
	}
	defer func() {
		for _, p := range all[1:] {
			p.stop()
		}
		for _, p := range all[1:] {
			if err := <-p.done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
	}()
	for _, p := range all {
		wait(t, "ready", func() bool { return p.node.Ready() == nil })
	}
	staying := startLoadThrough(t, 8, n.plain(1), n.plain(2))
	leaving := startLoadThrough(t, 8, n.plain(0))
	staying.more(100)
	all[0].stop()
	wait(t, "not ready", func() bool { return all[0].node.Ready() != nil })
	leaving.more(50)
	leaving.end() // as a load balancer would
	staying.more(100)
	if err := <-all[0].done; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
	staying.more(50)
	staying.end()
	for key, acked := range staying.acked {
		if got, want := int64(n.times(key)), acked.Load()+leaving.acked[key].Load(); got != want {
			t.Errorf("%s: applied %d times, acknowledged %d; want the same", key, got, want)
		}
	}
}
