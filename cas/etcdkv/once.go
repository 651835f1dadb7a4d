package etcdkv

import (
	"context"
	"fmt"
	"math"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
)

// once sees to it that a write goes out at most once, and knows whether it went out.
//
// The client's retry interceptor runs every request up to a hundred times. It means to
// repeat a write only if no connection was there, but there is one more case: an answer of
// Canceled or DeadlineExceeded while the caller's own context lives (a server that shuts
// down, or a proxy that gives up, after the write was applied) is taken for a time-out of
// the attempt, and the write is sent again (retry_interceptor.go, the branch on
// isContextError; etcd#14890 is the kind). There is no option to turn that off. So the
// attempt's end cancels the context that the interceptor looks at, unless the answer is a
// refusal: then a repetition, such as the one with a fresh token, is harmless and wanted.
//
// gRPC itself repeats a request only if the server can't have seen it.
type once struct {
	cancel context.CancelFunc

	mu   sync.Mutex // guards the rest
	sent bool       // at least once, by any attempt
	err  error      // of the latest attempt
}

// options are the options of every write. Not waiting until there is a connection makes an
// unreachable server a definite error: at once if the latest attempt to connect has failed,
// and as soon as it fails if one is under way.
func (o *once) options() []grpc.CallOption {
	return []grpc.CallOption{
		grpc.WaitForReady(false),
		grpc.MaxCallRecvMsgSize(math.MaxInt32),
		grpc.PerRPCCredentials(o),
		grpc.OnFinish(o.finished),
	}
}

// GetRequestMetadata adds nothing. gRPC asks for it when it has a connection and is about to
// send, and at no other time.
func (o *once) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = true
	return nil, nil
}

// RequireTransportSecurity is false, as there is nothing to keep secret.
func (o *once) RequireTransportSecurity() bool { return false }

func (o *once) finished(err error) {
	o.mu.Lock()
	o.err = err
	o.mu.Unlock()
	if err == nil || refusal(err) == nil {
		o.cancel()
	}
}

// request is what write needs to know for its errors.
type request struct {
	what string
	size int  // bytes
	read bool // changes nothing, so its outcome is never in doubt
}

// write sends one request, once.
func write[T any](ctx context.Context, s *Store, r request, send func(context.Context, ...grpc.CallOption) (T, error)) (T, error) {
	var zero T
	if err := s.open(ctx, r.what); err != nil {
		return zero, err
	}
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	o := &once{cancel: cancel}
	resp, err := send(attempt, o.options()...)
	if err == nil {
		return resp, nil
	}
	o.mu.Lock()
	sent := o.sent
	if o.err != nil {
		err = o.err
	}
	o.mu.Unlock()

	switch {
	case refusal(err) != nil:
		return zero, explain(ctx, r.what, err, nil)
	case !sent:
		return zero, explain(ctx, r.what+" not sent"+unreached, err, cas.ErrUnavailable)
	case status.Code(err) == codes.ResourceExhausted && r.size > largeRequest:
		return zero, explain(ctx, fmt.Sprintf("%s of %d bytes", r.what, r.size), err, cas.ErrInvalid)
	case r.read:
		return zero, explain(ctx, r.what, err, cas.ErrUnavailable)
	}
	return zero, explain(ctx, r.what, err, cas.ErrUncertain)
}

// unreached is what to look at when nobody answers.
const unreached = " (do the endpoints answer, and do both sides use TLS or neither?)"

// largeRequest tells whose size a ResourceExhausted is about. Both sides say it of a message
// that is too large for them, the client of the reply as well; but replies to writes are
// small, and only a request above this can have been refused for its size.
const largeRequest = 512 << 10
