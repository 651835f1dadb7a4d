package grpcidem_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/grpcidem"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// health is a service whose one unary method is the test's.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	check func(context.Context, string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error)
}

func (h *health) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s, err := h.check(ctx, r.GetService())
	if err != nil {
		return nil, err
	}
	return &grpc_health_v1.HealthCheckResponse{Status: s}, nil
}

func (h *health) Watch(_ *grpc_health_v1.HealthCheckRequest, s grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return s.Send(&grpc_health_v1.HealthCheckResponse{})
}

// fixture is a server with the interceptors, and a client.
type fixture struct {
	grpc_health_v1.HealthClient
	store *memkv.Client
	e     *idem.Engine
}

func tenant(ctx context.Context) (string, error) {
	if v := metadata.ValueFromIncomingContext(ctx, "tenant"); len(v) > 0 {
		return v[0], nil
	}
	return "", errors.New("who is this?")
}

func start(t *testing.T, ec idem.Config, c grpcidem.Config, check func(context.Context, string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error)) *fixture {
	t.Helper()
	x := &fixture{store: memkv.New()}
	var err error
	if x.e, err = idem.New(idem.OnCAS(x.store, ""), ec); err != nil {
		t.Fatal(err)
	}
	if c.Scope == nil {
		c.Scope = tenant
	}
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer(grpc.UnaryInterceptor(grpcidem.Unary(x.e, c)), grpc.StreamInterceptor(grpcidem.Stream(c)))
	grpc_health_v1.RegisterHealthServer(s, &health{check: check})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	x.HealthClient = grpc_health_v1.NewHealthClient(conn)
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		<-served
		_ = x.store.Close()
	})
	return x
}

// got is all that a client gets.
type got struct {
	status   grpc_health_v1.HealthCheckResponse_ServingStatus
	err      error
	replayed bool
	trailer  metadata.MD
}

func (x *fixture) call(t *testing.T, service string, md ...string) got {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), md...)
	var header, trailer metadata.MD
	r, err := x.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service}, grpc.Header(&header), grpc.Trailer(&trailer))
	delete(trailer, "content-type")
	return got{r.GetStatus(), err, len(header.Get(grpcidem.Replayed)) > 0 || len(trailer.Get(grpcidem.Replayed)) > 0, trailer}
}

// wantStatus checks for a code, a reason, and whether there is a RetryInfo.
func wantStatus(t *testing.T, err error, code codes.Code, reason string, retry bool) {
	t.Helper()
	s := status.Convert(err)
	var is string
	var again bool
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			is = d.GetReason()
		case *errdetails.RetryInfo:
			again = d.GetRetryDelay().AsDuration() > 0
		}
	}
	if s.Code() != code || is != reason || again != retry {
		t.Errorf("got %s, reason %q, RetryInfo %t, want %s, %q, %t", s, is, again, code, reason, retry)
	}
}

var key = []string{"tenant", "a", "idempotency-key", "k"}

func TestUnary_RunsOnce(t *testing.T) {
	var runs atomic.Int64
	x := start(t, idem.Config{}, grpcidem.Config{}, func(ctx context.Context, _ string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
		if _, err := idem.From(ctx); err != nil {
			t.Error(err)
		}
		if err := grpc.SetTrailer(ctx, metadata.Pairs("cost", "3", "raw-bin", "\x00\xff")); err != nil {
			t.Error(err)
		}
		return grpc_health_v1.HealthCheckResponse_ServingStatus(runs.Add(1)), nil
	})
	first, again := x.call(t, "s", key...), x.call(t, "s", key...)
	if first.err != nil || again.err != nil || first.status != 1 || again.status != 1 || first.replayed || !again.replayed {
		t.Errorf("got %+v, then %+v", first, again)
	}
	if diff := cmp.Diff(metadata.MD{"cost": {"3"}, "raw-bin": {"\x00\xff"}}, again.trailer); diff != "" || cmp.Diff(first.trailer, again.trailer) != "" {
		t.Errorf("trailers: first %v, replayed (-want +got):\n%s", first.trailer, diff)
	}
	wantStatus(t, x.call(t, "other", key...).err, codes.FailedPrecondition, "MISMATCH", false)
	if other := x.call(t, "s", "tenant", "b", "idempotency-key", "k"); other.status != 2 || other.replayed {
		t.Errorf("another tenant: got %+v, want its own", other)
	}
	if runs.Load() != 2 {
		t.Errorf("the method ran %d times, want twice", runs.Load())
	}
}

func TestUnary_KeepsStatusDetails(t *testing.T) {
	var runs atomic.Int64
	x := start(t, idem.Config{}, grpcidem.Config{}, func(ctx context.Context, _ string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
		runs.Add(1)
		_ = grpc.SetTrailer(ctx, metadata.Pairs("cost", "3"))
		s, err := status.New(codes.NotFound, "no such account").WithDetails(&errdetails.ErrorInfo{Reason: "GONE", Domain: "bank"})
		if err != nil {
			t.Error(err)
		}
		return 0, s.Err()
	})
	for range 2 {
		got := x.call(t, "s", key...)
		wantStatus(t, got.err, codes.NotFound, "GONE", false)
		if status.Convert(got.err).Message() != "no such account" || got.trailer.Get("cost")[0] != "3" {
			t.Errorf("got %v, %v", got.err, got.trailer)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("the method ran %d times, want once", runs.Load())
	}
}

func TestUnary_CodesThatAreNotKept(t *testing.T) {
	for code := codes.OK + 1; code <= codes.Unauthenticated; code++ {
		for _, policy := range []idem.Policy{idem.Retry(), idem.Block()} {
			var runs atomic.Int64
			decide := false
			x := start(t, idem.Config{}, grpcidem.Config{Interrupted: policy}, func(ctx context.Context, _ string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
				runs.Add(1)
				if op, err := idem.From(ctx); err == nil && decide {
					op.Decide()
				}
				return 0, status.Error(code, "x")
			})
			first, again := x.call(t, "s", key...), x.call(t, "s", key...)
			if status.Code(first.err) != code || status.Convert(first.err).Message() != "x" {
				t.Errorf("%s: got %v", code, first.err)
			}
			if kept := grpcidem.KeepByCode(code); again.replayed != kept || kept && runs.Load() != 1 {
				t.Errorf("%s: replayed %t, %d runs, want kept: %t", code, again.replayed, runs.Load(), kept)
			}
			if runs.Load() == 1 && !grpcidem.KeepByCode(code) {
				wantStatus(t, again.err, codes.FailedPrecondition, "INTERRUPTED", false) // under Block
				continue
			}
			decide = true
			x.call(t, "s", "tenant", "a", "idempotency-key", "decided")
			if got := x.call(t, "s", "tenant", "a", "idempotency-key", "decided"); status.Code(got.err) != code || !got.replayed {
				t.Errorf("%s, decided: got %v, replayed %t", code, got.err, got.replayed)
			}
		}
	}
}

func TestUnary_Keys(t *testing.T) {
	var runs atomic.Int64
	need := idem.Optional
	x := start(t, idem.Config{}, grpcidem.Config{Need: func(method string) idem.Need {
		if !strings.HasPrefix(method, "/grpc.health.v1.Health/") {
			t.Errorf("method %q", method)
		}
		return need
	}}, func(context.Context, string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
		return grpc_health_v1.HealthCheckResponse_ServingStatus(runs.Add(1)), nil
	})
	if a, b := x.call(t, "s"), x.call(t, "s"); a.status != 1 || b.status != 2 {
		t.Errorf("without a key, optional: got %+v, %+v", a, b)
	}
	wantStatus(t, x.call(t, "s", "idempotency-key", "k").err, codes.PermissionDenied, "SCOPE", false)
	wantStatus(t, x.call(t, "s", "tenant", "a", "idempotency-key", "").err, codes.InvalidArgument, "KEY_INVALID", false)
	wantStatus(t, x.call(t, "s", "tenant", "a", "idempotency-key", "k", "idempotency-key", "k").err, codes.InvalidArgument, "KEY_INVALID", false)
	wantStatus(t, x.call(t, "s", "tenant", "a", "idempotency-key", strings.Repeat("k", 256)).err, codes.InvalidArgument, "KEY_INVALID", false)
	need = idem.Required
	wantStatus(t, x.call(t, "s").err, codes.InvalidArgument, "KEY_MISSING", false)
	need = idem.Ignored
	if a, b := x.call(t, "s", key...), x.call(t, "s", key...); a.status != 3 || b.status != 4 {
		t.Errorf("ignored: got %+v, %+v", a, b)
	}
}

func TestUnary_InProgress(t *testing.T) {
	inside, release := make(chan struct{}, 1), make(chan struct{})
	check := func(context.Context, string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
		inside <- struct{}{}
		<-release
		return 1, nil
	}
	for _, wait := range []time.Duration{0, time.Minute} {
		x := start(t, idem.Config{}, grpcidem.Config{Wait: wait}, check)
		first := make(chan got)
		go func() { first <- x.call(t, "s", key...) }()
		<-inside
		if wait == 0 {
			wantStatus(t, x.call(t, "s", key...).err, codes.Aborted, "IN_PROGRESS", true)
			release <- struct{}{}
		} else {
			second := make(chan got)
			go func() { second <- x.call(t, "s", key...) }()
			release <- struct{}{}
			if g := <-second; g.err != nil || !g.replayed {
				t.Errorf("waiting: got %+v", g)
			}
		}
		if g := <-first; g.err != nil {
			t.Errorf("the first: got %v", g.err)
		}
	}
}

// A new owner of the shard goes on at once where the old one has crashed; the old one is turned away.
func TestUnary_Takeover(t *testing.T) {
	epoch := shard.Epoch(5)
	var x *fixture
	var runs atomic.Int64
	c := grpcidem.Config{Token: func(context.Context) shard.Token {
		return shard.Token{Group: "g", GroupID: "1", Epoch: epoch}
	}}
	x = start(t, idem.Config{Finish: time.Millisecond}, c, func(context.Context, string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
		if epoch == 5 {
			x.store.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: memkv.Connection} })
		}
		return grpc_health_v1.HealthCheckResponse_ServingStatus(runs.Add(1)), nil
	})
	// What was done is told, though the store is away and it may not have been recorded.
	if g := x.call(t, "s", key...); g.err != nil || g.status != 1 {
		t.Errorf("got %+v, want the method's answer", g)
	}
	wantStatus(t, x.call(t, "s", "tenant", "a", "idempotency-key", "other").err, codes.Unavailable, "UNAVAILABLE", true)
	x.store.Intercept(nil)
	wantStatus(t, x.call(t, "s", key...).err, codes.Aborted, "IN_PROGRESS", true)
	epoch = 6
	if g := x.call(t, "s", key...); g.err != nil || g.status != 2 {
		t.Errorf("the new owner: got %+v", g)
	}
}

func TestUnary_Large(t *testing.T) {
	var runs atomic.Int64
	x := start(t, idem.Config{MaxResult: 10}, grpcidem.Config{}, func(context.Context, string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
		return grpc_health_v1.HealthCheckResponse_ServingStatus(runs.Add(1)), nil
	})
	if g := x.call(t, "s", key...); g.err != nil {
		t.Error(g.err)
	}
	wantStatus(t, x.call(t, "s", key...).err, codes.FailedPrecondition, "NOT_KEPT", false)
}

func TestUnary_Config(t *testing.T) {
	unary := grpcidem.Unary(nil, grpcidem.Config{})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(grpcidem.Key, "k"))
	never := func(context.Context, any) (any, error) { t.Error("ran"); return nil, nil }
	_, err := unary(ctx, &grpc_health_v1.HealthCheckRequest{}, &grpc.UnaryServerInfo{}, never)
	wantStatus(t, err, codes.Internal, "CONFIG", false)
	own := status.Error(codes.Unauthenticated, "log in")
	e, err := idem.New(idem.OnCAS(memkv.New(), ""), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	unary = grpcidem.Unary(e, grpcidem.Config{Scope: func(context.Context) (string, error) { return "", own }})
	if _, err := unary(ctx, &grpc_health_v1.HealthCheckRequest{}, &grpc.UnaryServerInfo{}, never); err != own {
		t.Errorf("got %v, want Scope's status", err)
	}
	var log strings.Builder
	unary = grpcidem.Unary(e, grpcidem.Config{
		Scope:  func(context.Context) (string, error) { return "", errors.New("who is this?") },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	_, err = unary(ctx, &grpc_health_v1.HealthCheckRequest{}, &grpc.UnaryServerInfo{}, never)
	wantStatus(t, err, codes.PermissionDenied, "SCOPE", false)
	if strings.Contains(err.Error(), "who is this?") || !strings.Contains(log.String(), "who is this?") {
		t.Errorf("Scope's error is for the logger and not for the caller: got %v and in the log %q", err, log.String())
	}
	_, err = unary(ctx, 5, &grpc.UnaryServerInfo{}, never)
	wantStatus(t, err, codes.Internal, "CONFIG", false)
}

func TestStream_IsRefused(t *testing.T) {
	need := idem.Optional
	x := start(t, idem.Config{}, grpcidem.Config{Need: func(string) idem.Need { return need }}, nil)
	watch := func(md ...string) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), md...)
		s, err := x.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	if err := watch(); err != nil {
		t.Errorf("without a key: got %v", err)
	}
	wantStatus(t, watch(key...), codes.Unimplemented, "STREAM", false)
	need = idem.Required
	wantStatus(t, watch(), codes.Unimplemented, "STREAM", false)
	need = idem.Ignored
	if err := watch(key...); err != nil {
		t.Errorf("ignored: got %v", err)
	}
}
