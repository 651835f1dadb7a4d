package grpcrouter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
	"github.com/tenure-go/tenure/shard"
)

// What is no status may name hosts and tables, so its text is for the log alone.
func TestTextsOfErrorsAreNotShown(t *testing.T) {
	var result atomic.Pointer[error]
	n := start(t, setup{
		do:      func(context.Context, *echopb.Request) error { return *result.Load() },
		streams: func(grpc.ServerStream, *echopb.Request) error { return *result.Load() },
	})
	ways := n.ways("alice")
	for _, failed := range []error{
		errors.New("dial db-1"),
		fmt.Errorf("query db-1: %w", context.DeadlineExceeded),
		fmt.Errorf("commit at db-1: %w", cas.ErrUncertain),
	} {
		result.Store(&failed)
		for way, conn := range ways {
			for kind, call := range kinds {
				_, err := call(t.Context(), echopb.NewEchoClient(conn), "alice")
				if err == nil || strings.Contains(err.Error(), "db-1") {
					t.Errorf("%s %s: got %v, want an error that keeps to itself what %q says", way, kind, err, failed)
				}
			}
		}
	}
}

// applied is an error that came after the commit.
type applied struct{ error }

func (applied) Outcome() cas.Outcome { return cas.Applied }

// rolledBack is as fence.SQL.Tx returns the error of its function.
type rolledBack struct{ error }

func (e rolledBack) Unwrap() error        { return e.error }
func (e rolledBack) Outcome() cas.Outcome { return cas.NotApplied }

// What handlers return arrives with a code that tells clients what they may do, and with its outcome; by any way.
func TestOutcomesOfHandlers(t *testing.T) {
	var result atomic.Pointer[error]
	n := start(t, setup{
		do:      func(context.Context, *echopb.Request) error { return *result.Load() },
		streams: func(grpc.ServerStream, *echopb.Request) error { return *result.Load() },
	})
	ways := n.ways("alice")
	for _, c := range []struct {
		err  error
		code codes.Code
		want cas.Outcome
	}{
		{errors.New("a bug"), codes.Unknown, cas.Uncertain},
		{status.Error(codes.NotFound, "no such account"), codes.NotFound, cas.Uncertain},
		{&fence.FencedError{}, codes.Unavailable, cas.NotApplied},
		{fmt.Errorf("deposit: %w", fence.ErrNotSealed), codes.Unavailable, cas.NotApplied},
		{cas.ErrUncertain, codes.Unknown, cas.Uncertain},
		{&owner.LostError{}, codes.Unknown, cas.Uncertain},
		{applied{errors.New("the reply is lost")}, codes.Internal, cas.Applied},
		{rolledBack{status.Error(codes.FailedPrecondition, "too little")}, codes.FailedPrecondition, cas.NotApplied},
		{context.DeadlineExceeded, codes.DeadlineExceeded, cas.Uncertain},
		// What a call that the handler made says of itself is nothing about the call that it serves.
		{&owner.NotOwnerError{}, codes.Unknown, cas.Uncertain},
		{fmt.Errorf("step 2: %w", owner.ErrBusy), codes.Unknown, cas.Uncertain},
	} {
		result.Store(&c.err)
		for way, conn := range ways {
			for kind, call := range kinds {
				_, err := call(t.Context(), echopb.NewEchoClient(conn), "alice")
				err = errors.Unwrap(err)
				if got := status.Code(err); got != c.code {
					t.Errorf("%v, %s %s: got %v, want %v", c.err, way, kind, err, c.code)
				}
				if got := grpcrouter.Outcome(err); got != c.want {
					t.Errorf("%v, %s %s: got %v, want %v", c.err, way, kind, got, c.want)
				}
				if way == "client" && cas.OutcomeOf(err) != c.want {
					t.Errorf("%v, %s: cas.OutcomeOf is %v, want %v", c.err, kind, cas.OutcomeOf(err), c.want)
				}
			}
		}
	}
}

// A handler has withdrawn when its call to the other account's owner is refused: to its own caller that is not "not applied".
func TestNestedRefusalIsUncertain(t *testing.T) {
	var next *grpcrouter.Client
	n := start(t, setup{do: func(ctx context.Context, r *echopb.Request) error {
		_, err := echopb.NewEchoClient(next).Unary(ctx, &echopb.Request{Key: "bob"})
		if cas.OutcomeOf(err) != cas.NotApplied || status.Code(err) != codes.Unavailable {
			t.Errorf("nested: got %v, %v; want Unavailable, not applied", err, cas.OutcomeOf(err))
		}
		return err
	}})
	next = n.client(byKey, grpcrouter.Config{Target: func(shard.Member) string { return "" }}) // nowhere
	for way, conn := range n.ways("alice") {
		_, err := echopb.NewEchoClient(conn).Unary(t.Context(), &echopb.Request{Key: "alice"})
		if status.Code(err) != codes.Unknown || grpcrouter.Outcome(err) != cas.Uncertain {
			t.Errorf("%s: got %v, %v; want Unknown, uncertain", way, err, grpcrouter.Outcome(err))
		}
	}
}

// A tenure that is lost under a call ends the call's context; its client hears that nobody knows. The next owner serves.
func TestLossEndsCall(t *testing.T) {
	entered := make(chan struct{}, 1)
	var hang atomic.Bool
	n := start(t, setup{
		do: func(ctx context.Context, _ *echopb.Request) error {
			if !hang.Load() {
				return nil
			}
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		},
		streams: func(ss grpc.ServerStream, _ *echopb.Request) error {
			if !hang.Load() {
				return nil
			}
			entered <- struct{}{}
			<-ss.Context().Done()
			return status.FromContextError(ss.Context().Err()).Err()
		},
	})
	for way, conn := range n.ways("alice") {
		for kind, call := range kinds {
			hang.Store(true)
			held, at := n.Tenure("alice"), n.Owner("alice")
			result := make(chan error, 1)
			go func() {
				_, err := call(context.Background(), echopb.NewEchoClient(conn), "alice")
				result <- err
			}()
			<-entered
			n.Lose("alice")
			if err := <-result; code(err) != codes.Unknown {
				t.Errorf("%s %s: got %v, want Unknown", way, kind, err)
			}
			if held.Err() == nil {
				t.Error("the tenure was not lost")
			}
			hang.Store(false)
			n.Cut(at, false)
			n.Settle()
			if _, err := call(t.Context(), echopb.NewEchoClient(conn), "alice"); err != nil {
				t.Errorf("%s %s, after that: %v", way, kind, err)
			}
		}
		break // each costs a TTL
	}
}

// A request without a key is the client's fault; methods that have none run where they arrive.
func TestKeys(t *testing.T) {
	n := start(t, setup{})
	for way, conn := range n.ways("alice") {
		for kind, call := range kinds {
			_, err := call(t.Context(), echopb.NewEchoClient(conn), "")
			if code(err) != codes.InvalidArgument || grpcrouter.Outcome(err) != cas.NotApplied {
				t.Errorf("%s %s: got %v, %v; want InvalidArgument, not applied", way, kind, err, grpcrouter.Outcome(err))
			}
			if _, ok := errors.AsType[*router.KeyError](err); way == "client" && !ok {
				t.Errorf("%s: got %v, want a KeyError in it", kind, err)
			}
		}
		up, err := echopb.NewEchoClient(conn).Up(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := up.CloseAndRecv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: stream without a message: got %v, want InvalidArgument", way, err)
		}
	}
	for i := range n.Nodes {
		got, err := healthpb.NewHealthClient(n.plain(i)).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of node %d: got %v, %v", i, got, err)
		}
		w, err := healthpb.NewHealthClient(n.plain(i)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of node %d, watched: got %v, %v", i, got, err)
		}
	}
	c := healthpb.NewHealthClient(n.client(byKey, grpcrouter.Config{}))
	if _, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unimplemented || !errors.Is(err, grpcrouter.ErrUnrouted) {
		t.Errorf("through a Client: got %v, want Unimplemented, not routed", err)
	}
	if _, err := c.Watch(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("through a Client: got %v, want Unimplemented", err)
	}
}

// A key in the metadata needs no message: the stream opens at once.
func TestKeyFromMetadata(t *testing.T) {
	key := func(ctx context.Context, _ string, _ any) (string, error) { return keyOf(ctx) }
	n := start(t, setup{key: key, streams: func(ss grpc.ServerStream, _ *echopb.Request) error { return nil }})
	ways := n.ways("alice")
	ways["client"] = n.client(key, grpcrouter.Config{})
	for way, conn := range ways {
		for kind, call := range kinds {
			if _, err := call(withKey(t.Context(), "alice"), echopb.NewEchoClient(conn), "alice"); err != nil {
				t.Errorf("%s %s: %v", way, kind, err)
			}
		}
	}
}

// Too many wait for the shard: that is definite.
func TestBusyIsNotApplied(t *testing.T) {
	n := start(t, setup{owner: owner.Config{WaitTimeout: 50 * time.Millisecond}})
	n.Cut(n.Owner("alice"), true)
	held := n.Tenure("alice")
	wait(t, "the tenure to end", func() bool { return held.Err() != nil })
	c := echopb.NewEchoClient(n.plain(n.Owner("alice")))
	_, err := c.Unary(t.Context(), &echopb.Request{Key: "alice"})
	if status.Code(err) != codes.Unavailable || grpcrouter.Outcome(err) != cas.NotApplied {
		t.Errorf("got %v, %v; want Unavailable, not applied", err, grpcrouter.Outcome(err))
	}
}

// A gateway owns nothing and knows the services only by name.
func TestGateway(t *testing.T) {
	n := start(t, setup{})
	l := listen(t)
	serve(t, l, echopb.UnimplementedEchoServer{}, grpcrouter.Options(nil, byKey, n.client(byKey, grpcrouter.Config{}))...)
	c := echopb.NewEchoClient(dial(t, l.Addr().String()))
	for kind, call := range kinds {
		if _, err := call(t.Context(), c, "alice"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if got := n.times("alice"); got != len(kinds) {
		t.Errorf("applied %d times, want %d", got, len(kinds))
	}
}

// What can't work is said by each call, and by NewClient.
func TestFaults(t *testing.T) {
	n := start(t, setup{n: 1})
	other, err := owner.New(n.Store, shard.Group{Name: "others", Shards: 4}, ready, owner.Config{Address: "x:1"})
	if err != nil {
		t.Fatal(err)
	}
	homeless, err := owner.New(n.Store, accounts, ready, owner.Config{})
	if err != nil {
		t.Fatal(err)
	}
	plainTarget := n.client(byKey, grpcrouter.Config{Target: func(m shard.Member) string { return m.Address }})
	for name, opts := range map[string][]grpc.ServerOption{
		"no key":        grpcrouter.Options(n.Nodes[0], nil, nil),
		"another group": grpcrouter.Options(other, byKey, plainTarget),
		"no address":    grpcrouter.Options(homeless, byKey, plainTarget),
	} {
		l := listen(t)
		serve(t, l, echopb.UnimplementedEchoServer{}, opts...)
		for kind, call := range kinds {
			_, err := call(t.Context(), echopb.NewEchoClient(dial(t, l.Addr().String())), "alice")
			if code(err) != codes.FailedPrecondition || grpcrouter.Outcome(err) != cas.NotApplied {
				t.Errorf("%s, %s: got %v, want FailedPrecondition, not applied", name, kind, err)
			}
		}
	}
	if _, err := grpcrouter.NewClient(nil, nil, grpcrouter.Config{Tries: -1, Replay: -1}); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("NewClient: got %v, %v; want all faults, not applied", err, cas.OutcomeOf(err))
	}
}
