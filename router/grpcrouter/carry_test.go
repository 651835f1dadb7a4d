package grpcrouter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

// Metadata goes along as the client has sent it, without what is this library's; a forwarded call says for whom it is.
func TestMetadataIsCarried(t *testing.T) {
	var mu sync.Mutex
	var got metadata.MD
	see := func(ctx context.Context) {
		mu.Lock()
		defer mu.Unlock()
		got, _ = metadata.FromIncomingContext(ctx)
	}
	n := start(t, setup{
		do:      func(ctx context.Context, _ *echopb.Request) error { see(ctx); return nil },
		streams: func(ss grpc.ServerStream, _ *echopb.Request) error { see(ss.Context()); return nil },
	})
	ways := n.ways("alice")
	ways["forwarded"] = n.plain(n.other("alice"), grpc.WithUserAgent("teller/1"))
	for way, conn := range ways {
		for kind, call := range kinds {
			ctx := metadata.AppendToOutgoingContext(t.Context(),
				"authorization", "bearer x", "many", "1", "many", "2", "some-bin", "\x00\xff",
				"tenure-epoch", "7", "tenure-anything", "x", "tenure-token", "kept")
			if _, err := call(ctx, echopb.NewEchoClient(conn), "alice"); err != nil {
				t.Fatalf("%s %s: %v", way, kind, err)
			}
			mu.Lock()
			want := metadata.Pairs("authorization", "bearer x", "many", "1", "many", "2", "some-bin", "\x00\xff", "tenure-token", "kept")
			for name := range want {
				if !slices.Equal(got[name], want[name]) {
					t.Errorf("%s %s: %s is %q, want %q", way, kind, name, got[name], want[name])
				}
			}
			for name := range got {
				if strings.HasPrefix(name, "tenure-") && name != "tenure-token" {
					t.Errorf("%s %s: the handler sees %s", way, kind, name)
				}
			}
			if way == "forwarded" {
				if !slices.Equal(got["x-forwarded-for"], []string{"127.0.0.1"}) {
					t.Errorf("%s: x-forwarded-for is %q, want the client", kind, got["x-forwarded-for"])
				}
				if !strings.HasPrefix(strings.Join(got["user-agent"], ""), "teller/1") {
					t.Errorf("%s: user-agent is %q, want the client's", kind, got["user-agent"])
				}
			}
			mu.Unlock()
		}
	}
}

// Header, trailer and the details of the status come back as the handler has set them.
func TestAnswerIsCarried(t *testing.T) {
	quota := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "alice"}}}
	fail := func() error {
		s, err := status.New(codes.ResourceExhausted, "too much").WithDetails(quota)
		if err != nil {
			t.Error(err)
		}
		return s.Err()
	}
	header, trailer := metadata.Pairs("h", "1", "h-bin", "\x00"), metadata.Pairs("t", "1", "t", "2")
	n := start(t, setup{
		do: func(ctx context.Context, _ *echopb.Request) error {
			_ = grpc.SetHeader(ctx, header)
			_ = grpc.SetTrailer(ctx, trailer)
			return fail()
		},
		streams: func(ss grpc.ServerStream, _ *echopb.Request) error {
			if err := ss.SendHeader(header); err != nil {
				t.Errorf("SendHeader: %v", err)
			}
			ss.SetTrailer(trailer)
			return fail()
		},
	})
	for way, conn := range n.ways("alice") {
		c := echopb.NewEchoClient(conn)
		check := func(kind string, err error, h, tr metadata.MD) {
			t.Helper()
			s := status.Convert(err)
			if s.Code() != codes.ResourceExhausted || s.Message() != "too much" || len(s.Details()) != 1 || !proto.Equal(s.Details()[0].(proto.Message), quota) {
				t.Errorf("%s %s: got %v %v, want what the handler said", way, kind, s, s.Details())
			}
			for name := range header {
				if diff := cmp.Diff(header[name], h[name]); diff != "" {
					t.Errorf("%s %s: header %s (-want +got): %s", way, kind, name, diff)
				}
			}
			delete(tr, "grpc-status-details-bin") // gRPC's own
			if diff := cmp.Diff(trailer, tr); diff != "" {
				t.Errorf("%s %s: trailer (-want +got): %s", way, kind, diff)
			}
		}
		var h, tr metadata.MD
		_, err := c.Unary(t.Context(), &echopb.Request{Key: "alice"}, grpc.Header(&h), grpc.Trailer(&tr))
		check("unary", err, h, tr)

		down, err := c.Down(t.Context(), &echopb.Request{Key: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		h, _ = down.Header()
		_, err = down.Recv()
		check("down", err, h, down.Trailer())

		both, err := c.Both(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := both.Send(&echopb.Request{Key: "alice"}); err != nil {
			t.Fatal(err)
		}
		_, err = both.Recv()
		h, _ = both.Header()
		check("both", err, h, both.Trailer())

		up, err := c.Up(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := up.Send(&echopb.Request{Key: "alice"}); err != nil {
			t.Fatal(err)
		}
		_, err = up.CloseAndRecv()
		h, _ = up.Header()
		check("up", err, h, up.Trailer())
	}
}

// A header is on its way before the first message, and each message as it is sent.
func TestStreamsFlow(t *testing.T) {
	n := start(t, setup{streams: func(ss grpc.ServerStream, r *echopb.Request) error {
		if err := ss.SendHeader(metadata.Pairs("h", "1")); err != nil {
			return err
		}
		<-ss.Context().Done() // says nothing more
		return nil
	}})
	for way, conn := range n.ways("alice") {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := echopb.NewEchoClient(conn).Down(ctx, &echopb.Request{Key: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := s.Header(); err != nil || len(h["h"]) != 1 {
			t.Errorf("%s: got header %v, %v; want it at once", way, h, err)
		}
		cancel()
		if _, err := s.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("%s: got %v, want Canceled", way, err)
		}
	}
}

// The client's deadline is the handler's, and its end or the client's going away ends the handler's context.
func TestDeadlineAndCancellationAreCarried(t *testing.T) {
	type seen struct {
		left  time.Duration
		ended chan struct{}
	}
	calls := make(chan seen, 1)
	hang := func(ctx context.Context) error {
		d, ok := ctx.Deadline()
		if !ok {
			d = time.Now().Add(time.Hour)
		}
		s := seen{time.Until(d), make(chan struct{})}
		calls <- s
		<-ctx.Done()
		close(s.ended)
		return ctx.Err()
	}
	n := start(t, setup{
		do:      func(ctx context.Context, _ *echopb.Request) error { return hang(ctx) },
		streams: func(ss grpc.ServerStream, _ *echopb.Request) error { return hang(ss.Context()) },
	})
	for way, conn := range n.ways("alice") {
		for kind, call := range kinds {
			for _, end := range []string{"cancel", "deadline"} {
				timeout := 30 * time.Second
				if end == "deadline" {
					timeout = 100 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				result := make(chan error, 1)
				go func() {
					_, err := call(ctx, echopb.NewEchoClient(conn), "alice")
					result <- err
				}()
				s := <-calls
				if s.left > timeout || s.left < timeout/100 {
					t.Errorf("%s %s: the handler has %v left, want just under %v", way, kind, s.left, timeout)
				}
				want := codes.DeadlineExceeded
				if end == "cancel" {
					want = codes.Canceled
					cancel()
				}
				if err := <-result; code(err) != want {
					t.Errorf("%s %s: got %v, want %v", way, kind, err, want)
				}
				<-s.ended
				cancel()
			}
		}
	}
}

// A reply above the default limit of a node passes through it; the client's own limit counts.
func TestBigMessages(t *testing.T) {
	size := grpc.MaxRecvMsgSize(64 << 20)
	n := start(t, setup{server: []grpc.ServerOption{size}})
	payload := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // 5 MiB
	limits := []grpc.CallOption{grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)}
	for way, conn := range n.ways("alice") {
		c := echopb.NewEchoClient(conn)
		r, err := c.Unary(t.Context(), &echopb.Request{Key: "alice", Payload: payload}, limits...)
		if err != nil || !bytes.Equal(r.Payload, payload) {
			t.Errorf("%s unary: got %d bytes, %v", way, len(r.GetPayload()), err)
		}
		if _, err := c.Unary(t.Context(), &echopb.Request{Key: "alice", Payload: payload}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s unary: got %v, want the client's limit", way, err)
		}
		s, err := c.Both(t.Context(), limits...)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Send(&echopb.Request{Key: "alice", Payload: payload}); err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			if r, err := s.Recv(); err != nil || !bytes.Equal(r.Payload, payload) {
				t.Errorf("%s both: got %d bytes, %v", way, len(r.GetPayload()), err)
			}
		}
		_ = s.CloseSend()
		if _, err := s.Recv(); err != io.EOF {
			t.Errorf("%s both: got %v at the end", way, err)
		}
	}
}

// jsonCodec is another encoding, that some clients of a service use.
type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }
func (jsonCodec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return json.Marshal(v)
	}
	return protojson.Marshal(m)
}

func (jsonCodec) Unmarshal(b []byte, v any) error { return protojson.Unmarshal(b, v.(proto.Message)) }

// Another encoding than protobuf's passes through as well.
func TestOtherEncodingIsCarried(t *testing.T) {
	encoding.RegisterCodec(jsonCodec{})
	n := start(t, setup{})
	conn := n.plain(n.other("alice"), grpc.WithDefaultCallOptions(grpc.CallContentSubtype("json")))
	for kind, call := range kinds {
		if _, err := call(t.Context(), echopb.NewEchoClient(conn), "alice"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A method whose messages can't be read here does not reach its owner: "not applied" would be a lie.
func TestUnreadableStreamIsNotSent(t *testing.T) {
	encoding.RegisterCodec(jsonCodec{})
	var ran atomic.Int64
	n := start(t, setup{
		key: func(context.Context, string, any) (string, error) { return "alice", nil },
		server: []grpc.ServerOption{grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			ran.Add(1)
			return nil
		})},
	})
	conn := n.plain(n.other("alice"), grpc.WithDefaultCallOptions(grpc.CallContentSubtype("json")))
	s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/no.such.Service/Both")
	if err != nil {
		t.Fatal(err)
	}
	err = s.RecvMsg(new(echopb.Reply))
	if status.Code(err) != codes.Unimplemented || grpcrouter.Outcome(err) != cas.NotApplied || ran.Load() != 0 {
		t.Errorf("got %v, %v, and its handler ran %d times; want Unimplemented, not applied, and 0", err, grpcrouter.Outcome(err), ran.Load())
	}
}

// What a node's own program does not know of a message passes through it all the same.
func TestUnknownFieldsAreCarried(t *testing.T) {
	var got []byte
	n := start(t, setup{do: func(_ context.Context, r *echopb.Request) error {
		got = r.ProtoReflect().GetUnknown()
		return nil
	}})
	r := &echopb.Request{Key: "alice"}
	want := []byte{0xf8, 0x07, 0x2a} // field 127 is 42
	r.ProtoReflect().SetUnknown(want)
	if _, err := echopb.NewEchoClient(n.plain(n.other("alice"))).Unary(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
