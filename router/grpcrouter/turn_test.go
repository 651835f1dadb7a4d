package grpcrouter_test

import (
	"context"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
	"github.com/tenure-go/tenure/shard"
)

// After a refusal much is sent again, more than the owner takes before somebody receives what it says: the receiver must not
// wait for the sender.
func TestReceiverGoesOnDuringReplay(t *testing.T) {
	const replies = 64
	n := start(t, setup{streams: func(ss grpc.ServerStream, _ *echopb.Request) error {
		for range replies { // before it reads on
			if err := ss.SendMsg(&echopb.Reply{Payload: make([]byte, 32<<10)}); err != nil {
				return err
			}
		}
		return nil
	}})
	at := n.Nodes[n.Owner("alice")].Status().Self
	release := make(chan struct{})
	l := listen(t)
	serve(t, l, echopb.UnimplementedEchoServer{}, grpc.InitialWindowSize(8<<20), grpc.InitialConnWindowSize(8<<20),
		grpc.StreamInterceptor(func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			<-release
			md, _ := metadata.FromIncomingContext(ss.Context())
			ss.SetTrailer(metadata.Pairs("tenure-refused", md["tenure-hop"][0], "tenure-owner-bin", at.ID, "tenure-epoch", md["tenure-epoch"][0]))
			return status.Error(codes.Unavailable, "no")
		}))
	c := n.client(byKey, grpcrouter.Config{Replay: 16 << 20, Target: func(m shard.Member) string {
		if m.Weight != 0 { // as the table has it, not the refusal
			return l.Addr().String()
		}
		return n.address[m.ID]
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := echopb.NewEchoClient(c).Both(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1)
	go func() {
		count := 0
		for ; ; count++ {
			if _, err := s.Recv(); err != nil {
				if err != io.EOF {
					t.Errorf("reply %d: %v", count, err)
				}
				got <- count
				return
			}
		}
	}()
	const messages = 100
	for i := range messages {
		if err := s.Send(&echopb.Request{Key: "alice", Payload: make([]byte, 32<<10)}); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if i == messages/2 { // so much is kept; a later one meets the refusal
			close(release)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	if got := <-got; got != replies+messages {
		t.Errorf("got %d replies, want %d", got, replies+messages)
	}
}
