package grpcrouter_test

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

func withKey(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "account", key)
}

// keyOf finds it at clients and at servers.
func keyOf(ctx context.Context) (string, error) {
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok || len(md["account"]) == 0 {
		md, _ = metadata.FromIncomingContext(ctx)
	}
	if len(md["account"]) == 0 {
		return "", nil
	}
	return md["account"][0], nil
}

// Who receives before anything was sent waits for the first message.
func TestReceiveBeforeSend(t *testing.T) {
	n := start(t, setup{})
	s, err := echopb.NewEchoClient(n.client(byKey, grpcrouter.Config{})).Both(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Context() == nil || s.Trailer() != nil {
		t.Errorf("before the first message: context %v, trailer %v", s.Context(), s.Trailer())
	}
	headers, replies := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.Header(); headers <- err }()
	go func() { _, err := s.Recv(); replies <- err }()
	if err := s.Send(&echopb.Request{Key: "alice"}); err != nil {
		t.Fatal(err)
	}
	if err := <-headers; err != nil {
		t.Errorf("Header: %v", err)
	}
	if err := <-replies; err != nil {
		t.Errorf("Recv: %v", err)
	}
	if err := s.CloseSend(); err != nil {
		t.Errorf("CloseSend: %v", err)
	}
	if err := s.CloseSend(); err != nil {
		t.Errorf("CloseSend again: %v", err)
	}
	if err := s.Send(&echopb.Request{Key: "alice"}); status.Code(err) != codes.Internal {
		t.Errorf("Send after CloseSend: got %v, want Internal", err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
}

// A stream that never began ends with its context, and was not applied.
func TestStreamThatNeverBegins(t *testing.T) {
	n := start(t, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := echopb.NewEchoClient(n.client(byKey, grpcrouter.Config{})).Both(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 2)
	go func() { _, err := s.Recv(); got <- err }()
	go func() { _, err := s.Header(); got <- err }()
	cancel()
	for range 2 {
		if err := <-got; status.Code(err) != codes.Canceled || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v, %v; want Canceled, not applied", err, cas.OutcomeOf(err))
		}
	}
}

// Sender and receiver that both fill their windows don't stop each other.
func TestBothDirectionsAtOnce(t *testing.T) {
	n := start(t, setup{})
	payload := make([]byte, 32<<10)
	for way, conn := range n.ways("alice") {
		s, err := echopb.NewEchoClient(conn).Both(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const messages = 60
		sent := make(chan error, 1)
		go func() {
			for range messages {
				if err := s.Send(&echopb.Request{Key: "alice", Payload: payload}); err != nil {
					sent <- err
					return
				}
			}
			sent <- s.CloseSend()
		}()
		for i := range messages {
			if _, err := s.Recv(); err != nil {
				t.Fatalf("%s: reply %d: %v", way, i, err)
			}
		}
		if err := <-sent; err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Errorf("%s: got %v, want EOF", way, err)
		}
	}
}
