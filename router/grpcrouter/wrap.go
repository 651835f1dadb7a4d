package grpcrouter

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/tenure-go/tenure/router"
)

// Wrap makes s a router.Server, for router.Serve. Its Shutdown takes no new calls and waits for those under way
// (GracefulStop); when its context ends it cuts them off (Stop) and returns the context's cause. So streams should not go on
// for ever: let handlers end them on Tenure.Draining.
func Wrap(s *grpc.Server) router.Server { return &server{s} }

type server struct{ s *grpc.Server }

// handshakeTimeout is how long a new connection may take to say something. GracefulStop and Stop wait for those that have not,
// such as a load balancer's that it has dialed ahead, and gRPC's default is two minutes.
const handshakeTimeout = 5 * time.Second

// Serve returns nil after Shutdown, also after one that came before it.
func (w *server) Serve(l net.Listener) error {
	err := w.s.Serve(l)
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

func (w *server) Shutdown(ctx context.Context) error {
	graceful := make(chan struct{})
	go func() { // it ends when the last handler does, which Stop does not wait for
		defer close(graceful)
		w.s.GracefulStop()
	}()
	select {
	case <-graceful:
		return nil
	case <-ctx.Done():
		w.s.Stop()
		return context.Cause(ctx)
	}
}

// Close cuts off all calls.
func (w *server) Close() error {
	w.s.Stop()
	return nil
}
