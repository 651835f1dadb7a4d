package grpcrouter_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
	"google.golang.org/grpc"
)

// echo is the server of one node. do and streams stand for what a handler may do, and may be nil.
type echo struct {
	echopb.UnimplementedEchoServer
	t       testing.TB
	id      string
	do      func(ctx context.Context, r *echopb.Request) error
	streams func(grpc.ServerStream, *echopb.Request) error

	mu      sync.Mutex
	applied map[string]int
}

// enter checks that the handler runs where it should, and applies the request.
func (e *echo) enter(ctx context.Context, r *echopb.Request) error {
	t, err := owner.From(ctx)
	if err != nil {
		e.t.Errorf("%s: %v", e.id, err)
		return err
	}
	if !t.Owns(r.Key) {
		e.t.Errorf("%s served in the tenure of %v", r.Key, t.Token())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.applied[r.Key]++
	return nil
}

func (e *echo) times(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.applied[key]
}

func (n *nodes) times(key string) (sum int) {
	for _, e := range n.echo {
		sum += e.times(key)
	}
	return sum
}

func (e *echo) Unary(ctx context.Context, r *echopb.Request) (*echopb.Reply, error) {
	if err := e.enter(ctx, r); err != nil {
		return nil, err
	}
	if e.do != nil {
		if err := e.do(ctx, r); err != nil {
			return nil, err
		}
	}
	return &echopb.Reply{Node: e.id, N: r.N, Payload: r.Payload}, nil
}

func (e *echo) Down(r *echopb.Request, s grpc.ServerStreamingServer[echopb.Reply]) error {
	if err := e.enter(s.Context(), r); err != nil {
		return err
	}
	if e.streams != nil {
		if err := e.streams(s, r); err != nil {
			return err
		}
	}
	for i := range r.N {
		if err := s.Send(&echopb.Reply{Node: e.id, N: i, Payload: r.Payload}); err != nil {
			return err
		}
	}
	return nil
}

func (e *echo) Up(s grpc.ClientStreamingServer[echopb.Request, echopb.Reply]) error {
	out := &echopb.Reply{Node: e.id}
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(out)
		}
		if err != nil {
			return err
		}
		if err := e.each(s, r, out.N == 0); err != nil {
			return err
		}
		out.N++
		out.Payload = append(out.Payload, r.Payload...)
	}
}

func (e *echo) Both(s grpc.BidiStreamingServer[echopb.Request, echopb.Reply]) error {
	for i := int64(0); ; i++ {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := e.each(s, r, i == 0); err != nil {
			return err
		}
		if err := s.Send(&echopb.Reply{Node: e.id, N: i, Payload: r.Payload}); err != nil {
			return err
		}
	}
}

func (e *echo) each(s grpc.ServerStream, r *echopb.Request, first bool) error {
	if !first {
		return nil
	}
	if err := e.enter(s.Context(), r); err != nil {
		return err
	}
	if e.streams != nil {
		return e.streams(s, r)
	}
	return nil
}
