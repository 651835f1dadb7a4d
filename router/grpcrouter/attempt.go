package grpcrouter

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/router/internal/trip"
)

// invoke makes a unary call. The error is a *CallError.
func (r *route) invoke(ctx context.Context, args, reply any, opts []grpc.CallOption) error {
	defer hideOwn(opts)
	for {
		at, err := r.trip.Next(ctx)
		if err != nil {
			return r.notSent(ctx, err)
		}
		again, err := r.attempt(ctx, at, args, reply, opts)
		if !again {
			return err
		}
		if err := r.trip.Rest(ctx); err != nil {
			return r.notSent(ctx, err)
		}
	}
}

// attempt sends the call once. again: it was certainly not admitted there.
func (r *route) attempt(ctx context.Context, at trip.Stop, args, reply any, opts []grpc.CallOption) (again bool, err error) {
	l, done, err := r.c.pool.get(at.Target)
	if err != nil {
		return false, r.notSent(ctx, err)
	}
	defer done()
	h := newHop(at, false)
	var (
		reached peer.Peer // stays empty if the call never got a connection
		trailer metadata.MD
	)
	err = l.Invoke(h.mark(ctx, r.md), r.method, args, reply, attemptOptions(opts, grpc.Peer(&reached), grpc.Trailer(&trailer))...)
	switch {
	case err == nil:
		return false, nil
	case r.refused(at, h, trailer):
		return true, err
	case reached.Addr != nil:
		return false, ended(r.method, at, h, trailer, err)
	case r.unreached(ctx, at, err):
		return true, err
	}
	return false, r.notSent(ctx, err)
}

// attemptOptions is what each attempt is made with. A dead address must end the attempt: the shard moves on.
func attemptOptions(opts []grpc.CallOption, own ...grpc.CallOption) []grpc.CallOption {
	all := make([]grpc.CallOption, 0, len(opts)+len(own)+1)
	all = append(append(all, opts...), own...)
	return append(all, grpc.WaitForReady(false))
}

// refused takes note of a refusal, if that is what an attempt ended with.
func (r *route) refused(at trip.Stop, h hop, trailer metadata.MD) bool {
	who, epoch, refused := h.refused(trailer)
	if refused {
		r.trip.Refused(at, who, epoch)
	}
	return refused
}

// unreached takes note of an attempt that ended with err before it was sent, if another may do better.
func (r *route) unreached(ctx context.Context, at trip.Stop, err error) bool {
	if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
		return false
	}
	r.trip.Unreached(at, err)
	return true
}

// notSent: the call ended with err and nobody has admitted it. at is where it was last refused, or not reached.
func notSent(ctx context.Context, method string, at trip.Stop, err error) error {
	code, text := codes.Unavailable, err.Error()
	if s, ok := errors.AsType[stater](err); ok {
		code, text = s.GRPCStatus().Code(), s.GRPCStatus().Message()
	}
	if errors.Is(err, errClosed) {
		code = codes.Canceled
	}
	if ctx.Err() != nil {
		code = contextCode(ctx.Err())
	}
	return failed(method, at, err, say(status.New(code, "not applied: "+text), cas.NotApplied, nil), cas.NotApplied)
}

// ended: the call was sent to at, and ended with err. Only what the node has answered is what it says.
func ended(method string, at trip.Stop, h hop, trailer metadata.MD, err error) error {
	s := status.Convert(err)
	if h.answered(trailer) {
		o, _ := saidBy(s)
		return failed(method, at, err, s, o)
	}
	if _, _, refused := h.refused(trailer); refused { // and too late to try another
		return failed(method, at, err, s, cas.NotApplied)
	}
	code := s.Code()
	if code == codes.Unavailable {
		code = codes.Unknown // the first means to many: send it again
	}
	s = status.New(code, "outcome uncertain, it may have been applied: "+s.Message())
	return failed(method, at, err, say(s, cas.Uncertain, nil), cas.Uncertain)
}

func failed(method string, at trip.Stop, err error, s *status.Status, o cas.Outcome) error {
	return &CallError{Method: method, Owner: at.Member, Epoch: at.Epoch, err: err, status: s, outcome: o}
}

// notSent is for who uses the trip.
func (r *route) notSent(ctx context.Context, err error) error {
	return notSent(ctx, r.method, r.trip.Last(), err)
}

// keyless is for calls that have no key.
func keyless(method string, err error) error {
	s := status.New(codes.InvalidArgument, err.Error())
	if errors.Is(err, ErrUnrouted) {
		s = status.New(codes.Unimplemented, "grpcrouter: this method has no key, so a Client can't tell where to send it: call it over a connection of your own")
	}
	return &CallError{Method: method, err: err, status: say(s, cas.NotApplied, nil), outcome: cas.NotApplied}
}

// hideOwn takes this library's names off the trailers that the caller gets to see.
func hideOwn(opts []grpc.CallOption) {
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.TrailerCallOption:
			withoutOwn(*o.TrailerAddr)
		case grpc.HeaderCallOption:
			withoutOwn(*o.HeaderAddr)
		}
	}
}
