package etcdkv

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// fake is an etcd that says what a test wants to hear. A nil function answers with nothing.
type fake struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedWatchServer
	pb.UnimplementedAuthServer

	txn    func(n int, r *pb.TxnRequest) (*pb.TxnResponse, error)
	ranges func(n int, r *pb.RangeRequest) (*pb.RangeResponse, error)
	grant  func(n int) (*pb.LeaseGrantResponse, error)
	renew  func(n int, s pb.Lease_LeaseKeepAliveServer) error
	watch  func(n int, s pb.Watch_WatchServer) error
	mu     sync.Mutex // guards the rest
	calls  map[string]int
}

// count returns how often what has been called, this time included.
func (f *fake) count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[what]++
	return f.calls[what]
}

func (f *fake) called(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[what]
}

func (f *fake) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return f.txn(f.count("txn"), r)
}

func (f *fake) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return f.ranges(f.count("range"), r)
}

func (f *fake) LeaseGrant(context.Context, *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return f.grant(f.count("grant"))
}

func (f *fake) LeaseKeepAlive(s pb.Lease_LeaseKeepAliveServer) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	return f.renew(f.count("renew"), s)
}

func (f *fake) Watch(s pb.Watch_WatchServer) error {
	return f.watch(f.count("watch"), s)
}

func (f *fake) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	f.count("authenticate")
	return &pb.AuthenticateResponse{Token: "token"}, nil
}

// serve runs f until the test ends.
func (f *fake) serve(t *testing.T) (endpoint string) {
	t.Helper()
	f.calls = make(map[string]int)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, f)
	pb.RegisterLeaseServer(server, f)
	pb.RegisterWatchServer(server, f)
	pb.RegisterAuthServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return l.Addr().String()
}

func dial(t *testing.T, c clientv3.Config) *Store {
	t.Helper()
	c.Logger = zap.NewNop()
	c.BackoffWaitBetween = time.Millisecond
	c.DialOptions = append(c.DialOptions, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1, MaxDelay: 5 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}))
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := New(client)
	t.Cleanup(func() {
		_ = s.Close()
		_ = client.Close()
	})
	return s
}

func (f *fake) store(t *testing.T) *Store {
	t.Helper()
	return dial(t, clientv3.Config{Endpoints: []string{f.serve(t)}})
}

func header(rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 9, Revision: rev}
}

// within is for what must not hang.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
