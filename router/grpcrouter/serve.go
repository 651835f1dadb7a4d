package grpcrouter

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/owner"
)

// incoming is a call that has come here.
type incoming struct {
	method     string
	key        string
	from       hop
	setTrailer func(metadata.MD)
	setHeader  func(metadata.MD) error // nil if nobody waits for it
}

// here runs fn in the tenure of the call's key. If that is another's, no says whose, and nothing ran. An error is the answer.
func (g *gate) here(ctx context.Context, in incoming, fn func(context.Context) error) (no *owner.NotOwnerError, _ error) {
	if g.node == nil {
		return new(owner.NotOwnerError), nil
	}
	if in.from.present() {
		ctx = owner.AtLeast(ctx, in.from.epoch)
	}
	var entered, foreign bool
	var answer *status.Status
	outer := ctx
	err := g.node.Do(ctx, in.key, func(ctx context.Context, t *owner.Tenure) error {
		if entered = true; in.from.present() && in.from.group != t.Token().GroupID {
			foreign = true
			return nil
		}
		if err := fn(ctx); err != nil {
			var known bool
			if answer, known = ran(outer, ctx, err); !known {
				g.log.Warn("grpcrouter: handler failed", "method", in.method, "shard", t.Token().Shard, "epoch", t.Token().Epoch, "err", err)
			}
		}
		return nil
	})
	switch {
	case foreign:
		return new(owner.NotOwnerError), nil
	case entered:
		return nil, g.answer(in, answer)
	}
	if no, ok := errors.AsType[*owner.NotOwnerError](err); ok {
		return no, nil
	}
	return nil, g.answer(in, notAdmitted(outer, err))
}

// answer is s as the error of the call; nil if s is.
func (g *gate) answer(in incoming, s *status.Status) error {
	if s == nil {
		return nil
	}
	if in.from.present() {
		in.setTrailer(metadata.Pairs(answeredName, in.from.nonce))
	}
	return s.Err()
}

// forwards reports whether a call whose key is not owned here goes on to its owner. One that says it comes from a node does not,
// believed or not: nodes that don't believe each other would pass it round for ever.
func (g *gate) forwards(in incoming) bool {
	if in.from.doubted {
		g.log.Warn("grpcrouter: not forwarded: the sender says that it is a node or a Client, and is not believed: see Config.Peer", "method", in.method)
	}
	return g.via != nil && !in.from.present() && !in.from.doubted
}

// refuse answers a call that goes no further.
func (g *gate) refuse(in incoming, no *owner.NotOwnerError) error {
	if in.from.present() {
		if in.setHeader != nil {
			// An interceptor around this one may have set a header, which would look like an admission.
			_ = in.setHeader(metadata.Pairs(refusedName, in.from.nonce))
		}
		in.setTrailer(in.from.refusal(no))
	}
	return refusal(no).Err()
}

// unary is the interceptor of unary calls.
func (g *gate) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, _ error) {
	ctx, from := receive(ctx, g.peer)
	in := incoming{method: info.FullMethod, from: from, setTrailer: func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }}
	var err error
	in.key, err = g.find(ctx, info.FullMethod, req)
	if errors.Is(err, ErrUnrouted) {
		return handler(ctx, req)
	}
	if err != nil {
		return nil, g.answer(in, notAdmitted(ctx, err))
	}
	no, err := g.here(ctx, in, func(ctx context.Context) (err error) {
		reply, err = handler(ctx, req)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case no == nil:
		return reply, nil
	case !g.forwards(in):
		return nil, g.refuse(in, no)
	}
	return g.forward(ctx, in, req, no)
}

// stream is the interceptor of all others.
func (g *gate) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, from := receive(ss.Context(), g.peer)
	s := &serverStream{ServerStream: ss, ctx: ctx}
	in := incoming{method: info.FullMethod, from: from, setTrailer: ss.SetTrailer, setHeader: ss.SetHeader}
	var err error
	in.key, err = g.find(ctx, info.FullMethod, nil)
	if errors.Is(err, ErrUnrouted) {
		return handler(srv, s)
	}
	if err != nil && g.fault == nil {
		if in.key, err = g.firstMessage(s, info.FullMethod, err); errors.Is(err, ErrUnrouted) {
			return handler(srv, s)
		}
	}
	if err != nil {
		return g.answer(in, notAdmitted(ctx, err))
	}
	no, err := g.here(ctx, in, func(ctx context.Context) error {
		s.ctx, s.admit = ctx, from.admit && info.IsClientStream
		return handler(srv, s)
	})
	switch {
	case err != nil || no == nil:
		return err
	case !g.forwards(in):
		return g.refuse(in, no)
	}
	return g.forwardStream(s, in, info, no)
}
