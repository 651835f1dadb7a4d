package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/grpcrouter"
)

// watches ends streams to clients when their server shuts down. One that runs here has ended by then, with its tenure. But one
// that is passed on from an owner elsewhere would go on for as long as the client listens, and hold up the end of the process.
type watches struct {
	shut     context.Context
	shutdown context.CancelFunc
}

func newWatches() *watches {
	w := &watches{}
	w.shut, w.shutdown = context.WithCancel(context.Background())
	return w
}

// option is for the server, before those that forward.
func (w *watches) option() grpc.ServerOption { return grpc.ChainStreamInterceptor(w.intercept) }

// errLeaving has the client call again: there are other nodes.
var errLeaving = status.Error(codes.Unavailable, "this node leaves: call again")

func (w *watches) intercept(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.IsClientStream {
		return handler(srv, stream) // it ends with what the client sends: let it
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(w.shut, cancel)()
	err := handler(srv, &endingStream{stream, ctx})
	if err != nil && w.shut.Err() != nil {
		return errLeaving
	}
	return err
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context is grpc.ServerStream's.
func (s *endingStream) Context() context.Context { return s.ctx }

// serve wraps s for router.Serve.
func (w *watches) serve(s *grpc.Server) router.Server { return &watchedServer{grpcrouter.Wrap(s), w} }

type watchedServer struct {
	router.Server
	watches *watches
}

// Shutdown is router.Server's.
func (s *watchedServer) Shutdown(ctx context.Context) error {
	s.watches.shutdown()
	return s.Server.Shutdown(ctx)
}
