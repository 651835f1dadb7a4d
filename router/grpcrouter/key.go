package grpcrouter

import (
	"context"
	"errors"
	"strings"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router"
)

// KeyFunc finds the key of a call. method is its full name, "/bank.v1.Accounts/Deposit". req is the request message;
// of a stream it is nil at first, for a key that is known from ctx alone, and if that is an error, the stream's first
// message. Servers and clients ask the same function: in servers ctx has incoming metadata and in clients outgoing. req
// must not be changed or kept. It must be safe for concurrent use.
//
// An error, or an empty key, is an InvalidArgument with the error's text: don't put secrets into it. ErrUnrouted says
// that the method has no key and runs wherever it arrives.
type KeyFunc func(ctx context.Context, method string, req any) (string, error)

// ErrUnrouted is what a KeyFunc returns for methods that belong to no shard: health checks, reflection. A server runs them where
// they arrive. A Client has nowhere to send them and refuses.
var ErrUnrouted error = &plainError{"grpcrouter: not routed"}

// errNoMessage: Field needs a request.
var errNoMessage = errors.New("the key is in the first message, and none was sent")

// plainError has the outcome NotApplied.
type plainError struct{ msg string }

func (e *plainError) Error() string        { return e.msg }
func (e *plainError) Outcome() cas.Outcome { return cas.NotApplied }

// find asks f. The error is ErrUnrouted, wrapped or not, or a *router.KeyError.
func (f KeyFunc) find(ctx context.Context, method string, req any) (string, error) {
	key, err := f(ctx, method, req)
	switch {
	case err == nil && key != "":
		return key, nil
	case err == nil:
		err = errors.New("the key of a call to " + method + " is empty")
	case errors.Is(err, ErrUnrouted):
		return "", err
	}
	return "", &router.KeyError{Err: err}
}

// infrastructure: the service is one of gRPC's own, whose package is grpc: grpc.health.v1, grpc.reflection.v1.
func infrastructure(method string) bool { return strings.HasPrefix(method, "/grpc.") }
