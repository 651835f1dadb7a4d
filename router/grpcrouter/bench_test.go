package grpcrouter_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

// BenchmarkUnary compares calls with plain gRPC to a server that has the same handler and no interceptor. They take turns
// in small rounds, so that whatever else the machine does hits both; the ratio is the median of the rounds'.
//
//	direct     a plain connection to the owner: what the gate costs
//	client     a Client: the table, the gate and the hop's metadata
//	forwarded  a plain connection to another node: a second hop. Beside it, as plain, two plain hops
func BenchmarkUnary(b *testing.B) {
	n := start(b, setup{})
	l := listen(b)
	serve(b, l, bare{})
	bare1 := echopb.NewEchoClient(dial(b, l.Addr().String()))
	l2 := listen(b)
	serve(b, l2, relay{next: bare1})
	bare2 := echopb.NewEchoClient(dial(b, l2.Addr().String()))
	ways := n.ways("alice")
	for _, c := range []struct {
		name         string
		mine, theirs echopb.EchoClient
	}{
		{"direct", echopb.NewEchoClient(ways["local"]), bare1},
		{"client", echopb.NewEchoClient(ways["client"]), bare1},
		{"forwarded", echopb.NewEchoClient(ways["forwarded"]), bare2},
	} {
		b.Run(c.name, func(b *testing.B) {
			payload := make([]byte, 100)
			call := func(e echopb.EchoClient) {
				if _, err := e.Unary(context.Background(), &echopb.Request{Key: "alice", Payload: payload}); err != nil {
					b.Fatal(err)
				}
			}
			const each = 20
			round := func(e echopb.EchoClient) time.Duration {
				began := time.Now()
				for range each {
					call(e)
				}
				return time.Since(began)
			}
			for range 10 { // connections
				call(c.mine)
				call(c.theirs)
			}
			var ratios, mine []float64
			for b.Loop() {
				m, p := round(c.mine), round(c.theirs)
				ratios = append(ratios, float64(m)/float64(p))
				mine = append(mine, float64(m.Nanoseconds())/each)
			}
			slices.Sort(ratios)
			slices.Sort(mine)
			b.ReportMetric(ratios[len(ratios)/2], "x-plain")
			b.ReportMetric(mine[len(mine)/2], "ns/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bare is the handler without anything.
type bare struct{ echopb.UnimplementedEchoServer }

func (bare) Unary(_ context.Context, r *echopb.Request) (*echopb.Reply, error) {
	return &echopb.Reply{N: r.N, Payload: r.Payload}, nil
}

// relay is a handler that asks another server: what a hop costs that somebody wrote by hand.
type relay struct {
	echopb.UnimplementedEchoServer
	next echopb.EchoClient
}

func (r relay) Unary(ctx context.Context, in *echopb.Request) (*echopb.Reply, error) {
	return r.next.Unary(ctx, in)
}

// BenchmarkStream is a bidirectional stream's message there and back, beside plain gRPC's.
func BenchmarkStream(b *testing.B) {
	n := start(b, setup{})
	for _, way := range []string{"local", "client", "forwarded"} {
		conn := n.ways("alice")[way]
		b.Run(way, func(b *testing.B) { pingPong(b, conn) })
	}
	l := listen(b)
	serve(b, l, plainEcho{})
	b.Run("plain", func(b *testing.B) { pingPong(b, dial(b, l.Addr().String())) })
}

func pingPong(b *testing.B, conn grpc.ClientConnInterface) {
	s, err := echopb.NewEchoClient(conn).Both(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	m := &echopb.Request{Key: "alice", Payload: make([]byte, 100)}
	for b.Loop() {
		if err := s.Send(m); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.CloseSend(); err != nil {
		b.Fatal(err)
	}
	_, _ = s.Recv()
}

type plainEcho struct{ echopb.UnimplementedEchoServer }

func (plainEcho) Both(s grpc.BidiStreamingServer[echopb.Request, echopb.Reply]) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return nil
		}
		if err := s.Send(&echopb.Reply{N: r.N, Payload: r.Payload}); err != nil {
			return err
		}
	}
}
