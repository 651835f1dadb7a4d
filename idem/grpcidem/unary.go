package grpcidem

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

const (
	// Key is the metadata that names an operation.
	Key = "idempotency-key"
	// Replayed is the header metadata that marks an answer which was given before.
	Replayed = "idempotent-replayed"

	maxKey = 255 // bytes
)

// Unary runs a method once per key. The method finds its operation with idem.From. A Config without
// Scope refuses every call with a key.
func Unary(e *idem.Engine, c Config) grpc.UnaryServerInterceptor {
	c = c.withDefaults()
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		need := c.Need(info.FullMethod)
		if need == idem.Ignored {
			return handler(ctx, req)
		}
		key, err := keyOf(ctx)
		if err != nil {
			return nil, err
		}
		if key == "" {
			if need == idem.Optional {
				return handler(ctx, req)
			}
			return nil, errKeyMissing()
		}
		q, err := c.request(ctx, e, info.FullMethod, key, req)
		if err != nil {
			return nil, err
		}
		call := &call{c: c, req: req, handler: handler, method: info.FullMethod}
		return call.run(ctx, e, q)
	}
}

// Stream refuses streaming methods that come with a key, or need one: a stream can't be replayed.
func Stream(c Config) grpc.StreamServerInterceptor {
	c = c.withDefaults()
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		need := c.Need(info.FullMethod)
		if need == idem.Ignored {
			return handler(srv, stream)
		}
		if need == idem.Required || len(metadata.ValueFromIncomingContext(stream.Context(), Key)) > 0 {
			return errStream()
		}
		return handler(srv, stream)
	}
}

// keyOf reads the one key of a call; "" if there is none.
func keyOf(ctx context.Context) (string, error) {
	keys := metadata.ValueFromIncomingContext(ctx, Key)
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1:
		return "", errKeyInvalid("there are several; send one")
	case keys[0] == "":
		return "", errKeyInvalid("it is empty")
	case len(keys[0]) > maxKey:
		return "", errKeyInvalid("it is too long: at most 255 bytes")
	}
	return keys[0], nil
}

func (c Config) request(ctx context.Context, e *idem.Engine, method, key string, req any) (idem.Request, error) {
	if c.Scope == nil || e == nil {
		return idem.Request{}, errConfig("grpcidem has no engine or no Scope")
	}
	message, ok := req.(proto.Message)
	if !ok {
		return idem.Request{}, errConfig("the request is no protobuf message, so its fingerprint can't be taken")
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return idem.Request{}, errConfig("the request can't be encoded: " + err.Error())
	}
	scope, err := c.Scope(ctx)
	if err != nil {
		c.Logger.WarnContext(ctx, "idem: Scope has refused a call", "method", method, "error", err)
		return idem.Request{}, errScope(err)
	}
	q := idem.Request{
		Scope: scope, Key: key, Wait: c.Wait, Interrupted: c.Interrupted,
		Fingerprint: idem.Fingerprint([]byte("grpc/1"), []byte(method), b),
	}
	if c.Token != nil {
		q.Token = c.Token(ctx)
	}
	return q, nil
}

// call is one call of a method.
type call struct {
	c       Config
	req     any
	handler grpc.UnaryHandler
	method  string

	ran  bool
	resp any
	err  error
}

func (l *call) run(ctx context.Context, e *idem.Engine, q idem.Request) (any, error) {
	a, err := idem.Do(ctx, e, q, l.attempt)
	_, unkept := err.(*unkeptError)
	_, unfinished := errors.AsType[*idem.FinishError](err)
	switch {
	case err == nil && l.ran && a.mine == l, unkept:
		return l.resp, l.err
	case err == nil:
		return a.replay(ctx)
	case unfinished && l.ran:
		// It is done. To say otherwise would only lead to a second time.
		l.c.Logger.WarnContext(ctx, "idem: an answer was sent that may not have been recorded", "scope", q.Scope, "key", q.Key, "error", err)
		return l.resp, l.err
	}
	return nil, statusOf(err)
}

// attempt runs the method.
func (l *call) attempt(ctx context.Context, op *idem.Op) (answer, error) {
	s := &recorder{ServerTransportStream: grpc.ServerTransportStreamFromContext(ctx), method: l.method}
	l.resp, l.err = l.handler(grpc.NewContextWithServerTransportStream(ctx, s), l.req)
	l.ran = true
	if code := status.Code(l.err); !l.c.Keep(code) && !op.Decided() {
		return answer{}, &unkeptError{err: l.err, undone: undone(code)}
	}
	a := newAnswer(l.resp, l.err, s.trailers())
	a.mine = l
	return a, nil
}

// unkeptError ends a try whose answer is not kept.
type unkeptError struct {
	err    error
	undone bool
}

func (e *unkeptError) Error() string { return "grpcidem: an answer that is not kept: " + e.err.Error() }

// Outcome is NotApplied if the code says that nothing was done; of others nobody knows.
func (e *unkeptError) Outcome() cas.Outcome {
	if e.undone {
		return cas.NotApplied
	}
	return cas.Uncertain
}
