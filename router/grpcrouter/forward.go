package grpcrouter

import (
	"context"
	"errors"
	"io"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/internal/trip"
)

// onward is the way to the owner of a client's call, which this node has refused to run.
func (g *gate) onward(ctx context.Context, in incoming, no *owner.NotOwnerError) *route {
	r := &route{c: g.via, method: in.method, md: onward(ctx), trip: trip.New(trip.Config{
		Table:  g.via.table,
		Target: g.via.conf.Target,
		Tries:  g.via.conf.Tries,
		Wait:   g.wait,
	}, in.key)}
	r.trip.Learn(no.Owner, no.Epoch)
	return r
}

// unbounded: the client has its own bound.
var unbounded = []grpc.CallOption{grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)}

// forward brings a unary call to its owner, and the answer back with all that belongs to it.
func (g *gate) forward(ctx context.Context, in incoming, req any, no *owner.NotOwnerError) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	shape := shapeOf(in.method, md)
	reply, err := shape.reply()
	if err != nil {
		return nil, unreadable(err)
	}
	var header, trailer metadata.MD
	opts := append(shape.options(), grpc.Header(&header), grpc.Trailer(&trailer))
	err = g.onward(ctx, in, no).invoke(ctx, req, reply, append(opts, unbounded...))
	_ = grpc.SetHeader(ctx, backward(header))
	in.setTrailer(backward(trailer))
	if err != nil {
		return nil, g.report(ctx, err)
	}
	return reply, nil
}

// unreadable: nothing was sent.
func unreadable(err error) error {
	return say(status.New(codes.Unimplemented, "grpcrouter: "+err.Error()), cas.NotApplied, nil).Err()
}

// report is err, which is for the client as it is; the log hears what did not come from a handler.
func (g *gate) report(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*CallError](err); ok && ctx.Err() == nil && (e.Code() == codes.Unavailable || e.Code() == codes.Unknown) {
		g.log.Warn("grpcrouter: call failed", "method", e.Method, "member", e.Owner.ID, "err", err)
	}
	return err
}

// forwardStream is forward for streams: messages go both ways as they come.
func (g *gate) forwardStream(s *serverStream, in incoming, info *grpc.StreamServerInfo, no *owner.NotOwnerError) error {
	md, _ := metadata.FromIncomingContext(s.ctx)
	shape := shapeOf(in.method, md)
	if err := shape.check(); err != nil {
		return unreadable(err)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	desc := &grpc.StreamDesc{StreamName: in.method, ServerStreams: info.IsServerStream, ClientStreams: info.IsClientStream}
	to := newStream(ctx, g.via, desc, in.method, append(shape.options(), unbounded...))
	to.route = g.onward(s.ctx, in, no)
	p := &pump{shape: shape, client: s, owner: to}
	if err := p.begin(info.IsClientStream); err != nil {
		return g.report(s.ctx, err)
	}
	if info.IsClientStream {
		// It ends when this call has: nothing else ends a server's RecvMsg, so nobody can wait for it here.
		go func() {
			if err := p.up(); err != nil {
				cancel(err)
			}
		}()
	}
	err := p.down(info.IsServerStream)
	if gone := context.Cause(ctx); gone != nil && s.ctx.Err() == nil {
		err = gone // the client's next message could not be read
	}
	s.SetTrailer(backward(to.Trailer()))
	if err != nil {
		return g.report(s.ctx, err)
	}
	return nil
}

// pump passes the messages of one stream on.
type pump struct {
	shape  shape
	client *serverStream
	owner  *stream
}

// begin opens the stream to the owner: with the first message, if that was read already, or if there is only one.
func (p *pump) begin(many bool) error {
	first := p.client.first
	if p.client.first = nil; first == nil && !many {
		var err error
		if first, err = p.shape.request(); err != nil {
			return unreadable(err)
		}
		if err := p.client.RecvMsg(first); err != nil {
			return err
		}
	}
	if first != nil {
		p.owner.keep(first)
	}
	if err := p.owner.begin(); err != nil {
		return err
	}
	if !many {
		return p.owner.CloseSend()
	}
	return nil
}

// up passes the client's messages on. An error: one could not be read, though the client may still be there.
func (p *pump) up() error {
	for {
		m, err := p.shape.request()
		if err != nil {
			return unreadable(err)
		}
		err = p.client.RecvMsg(m)
		if err == io.EOF {
			_ = p.owner.CloseSend()
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.owner.SendMsg(m); err != nil {
			return nil // down knows why
		}
	}
}

// down passes the owner's header and messages back, until their end.
func (p *pump) down(many bool) error {
	if md, _ := p.owner.Header(); md != nil {
		if err := p.client.SendHeader(backward(md)); err != nil {
			return err
		}
	}
	for {
		m, err := p.shape.reply()
		if err != nil {
			return unreadable(err)
		}
		if err := p.owner.RecvMsg(m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := p.client.SendMsg(m); err != nil || !many {
			return err
		}
	}
}
