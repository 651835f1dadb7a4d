package grpcrouter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
	"github.com/tenure-go/tenure/shard"
)

// misled is a Config by which the next call goes to a node that does not own alice.
func (n *nodes) misled(armed *atomic.Bool) grpcrouter.Config {
	return grpcrouter.Config{Target: func(m shard.Member) string {
		// The table's member is whole; one that a refusal names is not.
		if m.Weight != 0 && armed.Load() {
			return n.addrs[n.other("alice")]
		}
		return n.address[m.ID]
	}}
}

func TestRefusalIsFollowed(t *testing.T) {
	var calls counter
	n := start(t, setup{refuse: true, server: calls.options()})
	var wrong atomic.Bool
	c := n.client(byKey, n.misled(&wrong))
	wrong.Store(true)
	for kind, call := range kinds {
		calls.n.Store(0)
		if _, err := call(t.Context(), echopb.NewEchoClient(c), "alice"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if got := calls.n.Load(); got != 2 {
			t.Errorf("%s: sent %d times, want twice", kind, got)
		}
	}
	if got := n.times("alice"); got != len(kinds) {
		t.Errorf("applied %d times, want %d", got, len(kinds))
	}
}

// An interceptor in front has set a header before the node refused.
func TestRefusalBehindHeaderIsFollowed(t *testing.T) {
	early := grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		_ = ss.SetHeader(metadata.Pairs("request-id", "7"))
		return h(srv, ss)
	})
	n := start(t, setup{refuse: true, server: []grpc.ServerOption{early}})
	var wrong atomic.Bool
	wrong.Store(true)
	c := n.client(byKey, n.misled(&wrong))
	for kind, call := range kinds {
		if _, err := call(t.Context(), echopb.NewEchoClient(c), "alice"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A node that answers a plain client for another's key says whose it is.
func TestRefusalNamesOwner(t *testing.T) {
	n := start(t, setup{refuse: true})
	conn := n.plain(n.other("alice"))
	for kind, call := range kinds {
		_, err := call(t.Context(), echopb.NewEchoClient(conn), "alice")
		s := status.Convert(errors.Unwrap(err))
		if s.Code() != codes.Unavailable || grpcrouter.Outcome(err) != cas.NotApplied {
			t.Errorf("%s: got %v, %v; want Unavailable, not applied", kind, err, grpcrouter.Outcome(err))
		}
		var info *errdetails.ErrorInfo
		var retry *errdetails.RetryInfo
		for _, d := range s.Details() {
			switch d := d.(type) {
			case *errdetails.ErrorInfo:
				info = d
			case *errdetails.RetryInfo:
				retry = d
			}
		}
		if want := n.Nodes[n.Owner("alice")].Status().Self.ID; info == nil || info.Metadata["owner"] != want || info.Metadata["epoch"] == "" {
			t.Errorf("%s: got details %v, want owner %s and its epoch", kind, info, want)
		}
		if retry.GetRetryDelay().AsDuration() <= 0 {
			t.Errorf("%s: got %v, want when to try again", kind, retry)
		}
	}
}

// Two nodes that each take the other for the owner refuse for ever: Tries bounds it, and nothing was applied.
func TestRefusalsAreBounded(t *testing.T) {
	var calls atomic.Int64
	n := start(t, setup{})
	// Someone who refuses all, each time in favour of a later claim of somebody else.
	refuse := func(ctx context.Context, setTrailer func(metadata.MD)) error {
		md, _ := metadata.FromIncomingContext(ctx)
		k := calls.Add(1)
		setTrailer(metadata.Pairs(
			"tenure-refused", md["tenure-hop"][0], "tenure-owner-bin", fmt.Sprintf("x%d", k),
			"tenure-owner-address-bin", "x:1", "tenure-epoch", fmt.Sprint(int64(math.MaxInt32)+k)))
		return status.Error(codes.Unavailable, "no")
	}
	l := listen(t)
	serve(t, l, echopb.UnimplementedEchoServer{},
		grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			return nil, refuse(ctx, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
		}),
		grpc.StreamInterceptor(func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			return refuse(ss.Context(), ss.SetTrailer)
		}))
	c := n.client(byKey, grpcrouter.Config{Tries: 3, Target: func(shard.Member) string { return l.Addr().String() }})
	for kind, call := range kinds {
		calls.Store(0)
		_, err := call(t.Context(), echopb.NewEchoClient(c), "alice")
		if code(err) != codes.Unavailable || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: got %v, %v; want Unavailable, not applied", kind, err, cas.OutcomeOf(err))
		}
		if calls.Load() != 3 {
			t.Errorf("%s: sent %d times, want 3", kind, calls.Load())
		}
	}
}

// A handler knows no attempt's number, so it can't refuse in the node's name, nor say what became of the call.
func TestHandlerCantRefuse(t *testing.T) {
	forge := metadata.Pairs("tenure-refused", "1", "tenure-refused", "", "tenure-answered", "1", "tenure-owner-bin", "x")
	claim := func() error {
		s, err := status.New(codes.Unavailable, "forged").WithDetails(&errdetails.ErrorInfo{Domain: "tenure", Reason: "NOT_APPLIED"})
		if err != nil {
			t.Error(err)
		}
		return s.Err()
	}
	n := start(t, setup{
		do: func(ctx context.Context, _ *echopb.Request) error {
			if md, _ := metadata.FromIncomingContext(ctx); md["tenure-hop"] != nil {
				t.Error("the handler sees the hop")
			}
			_ = grpc.SetTrailer(ctx, forge)
			return claim()
		},
		streams: func(ss grpc.ServerStream, _ *echopb.Request) error {
			ss.SetTrailer(forge)
			return claim()
		},
	})
	for way, conn := range n.ways("alice") {
		for kind, call := range kinds {
			before := n.times("alice")
			_, err := call(t.Context(), echopb.NewEchoClient(conn), "alice")
			if s := status.Convert(errors.Unwrap(err)); s.Code() != codes.Unavailable || s.Message() != "forged" || len(s.Details()) != 0 {
				t.Errorf("%s %s: got %v %v; want what the handler said, without the forged detail", way, kind, s, s.Details())
			}
			if got := grpcrouter.Outcome(err); got != cas.Uncertain {
				t.Errorf("%s %s: got %v, want uncertain", way, kind, got)
			}
			if got := n.times("alice") - before; got != 1 {
				t.Errorf("%s %s: applied %d times, want once", way, kind, got)
			}
		}
	}
}

// What comes from a node of another cluster, or from one that can't say where it is from, is refused.
func TestOtherGroupIsRefused(t *testing.T) {
	n := start(t, setup{})
	c := echopb.NewEchoClient(n.plain(n.Owner("alice")))
	good := n.Tenure("alice").Token().GroupID
	for group, want := range map[string]codes.Code{good: codes.OK, "another": codes.Unavailable, "": codes.Unavailable} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tenure-hop", "abc", "tenure-group", group)
		var trailer metadata.MD
		_, err := c.Unary(ctx, &echopb.Request{Key: "alice"}, grpc.Trailer(&trailer))
		if status.Code(err) != want {
			t.Errorf("group %q: got %v, want %v", group, err, want)
		}
		if want != codes.OK && (len(trailer["tenure-refused"]) != 1 || trailer["tenure-refused"][0] != "abc") {
			t.Errorf("group %q: got trailer %v, want a refusal of abc", group, trailer)
		}
	}
	if got := n.times("alice"); got != 1 {
		t.Errorf("applied %d times, want once", got)
	}
}

// There is no third hop.
func TestOneHop(t *testing.T) {
	n := start(t, setup{})
	c := echopb.NewEchoClient(n.plain(n.other("alice")))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tenure-hop", "abc", "tenure-group", n.Tenure("alice").Token().GroupID)
	for kind, call := range kinds {
		if _, err := call(ctx, c, "alice"); code(err) != codes.Unavailable {
			t.Errorf("%s: got %v, want Unavailable", kind, err)
		}
	}
	if got := n.times("alice"); got != 0 {
		t.Errorf("applied %d times, want 0", got)
	}
}

// Who is no node is not believed.
func TestPeerIsAsked(t *testing.T) {
	n := start(t, setup{client: grpcrouter.Config{Peer: func(context.Context) bool { return false }}})
	c := echopb.NewEchoClient(n.plain(n.Owner("alice")))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tenure-hop", "abc", "tenure-group", "another")
	if _, err := c.Unary(ctx, &echopb.Request{Key: "alice"}); err != nil {
		t.Errorf("got %v, want it served like any client's", err)
	}
}

// Nodes that don't believe each other, for want of a certificate say, don't pass a call round.
func TestOneHopAmongDoubters(t *testing.T) {
	var calls counter
	wrong := "nobody:1"
	n := start(t, setup{server: calls.options(), client: grpcrouter.Config{
		Peer:   func(context.Context) bool { return false },
		Target: func(shard.Member) string { return wrong },
	}})
	wrong = n.addrs[n.other("alice")]
	for kind, call := range kinds {
		calls.n.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := call(ctx, echopb.NewEchoClient(n.plain(n.other("alice"))), "alice")
		cancel()
		if code(err) == codes.OK || code(err) == codes.DeadlineExceeded || calls.n.Load() != 2 {
			t.Errorf("%s: got %v after %d calls, want a refusal after 2", kind, err, calls.n.Load())
		}
	}
	if got := n.times("alice"); got != 0 {
		t.Errorf("applied %d times, want 0", got)
	}
}

// To one who does not believe it a Client is as any other, and an upload that it holds back until it is admitted goes on.
func TestUploadToWhoDoesNotBelieve(t *testing.T) {
	n := start(t, setup{client: grpcrouter.Config{Peer: func(context.Context) bool { return false }}})
	for way, conn := range n.ways("alice") {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		s, err := echopb.NewEchoClient(conn).Up(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err = s.Send(&echopb.Request{Key: "alice", Payload: make([]byte, 20<<10)}); err != nil {
				break
			}
		}
		if r, err := s.CloseAndRecv(); err != nil || r.N != 10 {
			t.Errorf("%s: got %d messages, %v; want 10", way, r.GetN(), err)
		}
		cancel()
	}
}

// While nobody owns the shard a call waits, and its end by the deadline is definite.
func TestNobodyOwns(t *testing.T) {
	n := start(t, setup{n: 1})
	empty := shard.Group{Name: "accounts", Shards: 16, Prefix: "/nowhere"}
	c := n.clientOf(empty, byKey, grpcrouter.Config{})
	for kind, call := range kinds {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := call(ctx, echopb.NewEchoClient(c), "alice")
		cancel()
		if code(err) != codes.DeadlineExceeded || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: got %v, %v; want DeadlineExceeded, not applied", kind, err, cas.OutcomeOf(err))
		}
	}
}
