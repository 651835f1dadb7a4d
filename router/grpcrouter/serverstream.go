package grpcrouter

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenure-go/tenure/cas"
)

// serverStream is a stream of which the first message was read to find the key: the handler gets it again.
type serverStream struct {
	grpc.ServerStream
	ctx   context.Context
	first any  // nil once it was handed out, or if it was not needed
	admit bool // send a header before the handler waits for its second message
	read  bool // the handler has had the first message
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) RecvMsg(m any) error {
	if s.admit && s.read {
		// The sender may hold back what comes next until it knows that it was admitted here.
		s.admit = false
		_ = s.SendHeader(metadata.MD{}) // an error: the header is sent already
	}
	s.read = true
	if first := s.first; first != nil {
		s.first = nil
		return pass(first, m)
	}
	return s.ServerStream.RecvMsg(m)
}

// firstMessage reads the message that has the key; without says why there is none without it.
func (g *gate) firstMessage(s *serverStream, method string, without error) (string, error) {
	m, err := typed(method, protoreflect.MethodDescriptor.Input)
	if err != nil {
		return "", say(status.New(codes.Unimplemented, "grpcrouter: "+err.Error()), cas.NotApplied, nil).Err()
	}
	switch err := s.ServerStream.RecvMsg(m); {
	case errors.Is(err, io.EOF):
		return "", without
	case err != nil:
		return "", say(status.Convert(err), cas.NotApplied, nil).Err()
	}
	s.first = m
	return g.key.find(s.ctx, method, m)
}
