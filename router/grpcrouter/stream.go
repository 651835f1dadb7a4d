package grpcrouter

import (
	"context"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-go/tenure/router/internal/trip"
)

// stream is a grpc.ClientStream that is opened by its first message, and opened anew at another node as long as nodes
// refuse it. Until it is admitted, what was sent is kept to be sent again.
//
// As in gRPC, one goroutine may send while another receives. The one that sends, opens or replays has the turn.
type stream struct {
	ctx    context.Context
	c      *Client
	desc   *grpc.StreamDesc
	method string
	opts   []grpc.CallOption

	turn  chan struct{}          // holds one token: take it to send or to open
	begun chan struct{}          // closed once cur or end is there
	cur   atomic.Pointer[branch] // the attempt under way or the last; written by who has the turn
	end   atomic.Pointer[ending] // of the stream as a whole, if no attempt's; written by who has the turn

	// For who has the turn.
	route  *route // nil until the key is known
	sent   []any  // since the beginning, until admitted
	size   int    // of sent, in bytes
	closed bool   // CloseSend was called
}

// branch is one attempt of a stream.
type branch struct {
	grpc.ClientStream
	at       trip.Stop
	hop      hop
	admitted atomic.Bool
	over     chan struct{} // closed once another has taken its place, or the stream has ended
}

// admission waits until b was admitted, or has ended without. A refusal has no header, or one that says so, and any other header
// means that there is nothing to be tried again.
func (b *branch) admission() bool {
	if b.admitted.Load() {
		return true
	}
	md, _ := b.Header()
	if md == nil || b.hop.signed(md, refusedName) {
		return false
	}
	b.admitted.Store(true)
	return true
}

// leave is called by who has the turn.
func (b *branch) leave() {
	select {
	case <-b.over:
	default:
		close(b.over)
	}
}

type ending struct{ err error }

func newStream(ctx context.Context, c *Client, desc *grpc.StreamDesc, method string, opts []grpc.CallOption) *stream {
	s := &stream{
		ctx: ctx, c: c, desc: desc, method: method, opts: opts,
		turn: make(chan struct{}, 1), begun: make(chan struct{}),
	}
	s.turn <- struct{}{}
	return s
}

// take waits for the turn; give must follow if the error is nil.
func (s *stream) take() error {
	select {
	case <-s.turn:
		return nil
	case <-s.ctx.Done():
		return s.gaveUp()
	}
}

func (s *stream) give() { s.turn <- struct{}{} }

// gaveUp is the error of a caller whose context ended while it waited for the stream to begin, or for another goroutine to send.
func (s *stream) gaveUp() error {
	if b := s.cur.Load(); b != nil {
		return ended(s.method, b.at, b.hop, nil, status.FromContextError(s.ctx.Err()).Err())
	}
	return notSent(s.ctx, s.method, trip.Stop{}, context.Cause(s.ctx))
}

// begin opens a stream whose key is known before its first message.
func (s *stream) begin() error {
	if err := s.take(); err != nil {
		return err
	}
	defer s.give()
	s.open()
	if e := s.end.Load(); e != nil {
		return e.err
	}
	return nil
}

// finish ends the stream as a whole. The caller has the turn.
func (s *stream) finish(err error) {
	s.end.Store(&ending{err})
	s.sent = nil
	if b := s.cur.Load(); b != nil {
		b.leave()
	}
	s.start()
}

func (s *stream) start() {
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
}

// SendMsg sends m, and opens the stream if m is the first.
func (s *stream) SendMsg(m any) error {
	if err := s.take(); err != nil {
		return err
	}
	defer s.give()
	if s.closed {
		return status.Error(codes.Internal, "grpcrouter: SendMsg called after CloseSend")
	}
	if s.route == nil && s.end.Load() == nil {
		key, err := s.c.key.find(s.ctx, s.method, m)
		if err != nil {
			s.finish(keyless(s.method, err))
			return s.end.Load().err
		}
		s.route = s.c.route(s.method, key, outgoing(s.ctx))
		s.keep(m)
		s.open() // sends what is kept
		return s.sendError(nil)
	}
	b := s.room()
	if b == nil {
		return s.sendError(nil)
	}
	if !b.admitted.Load() {
		s.keep(m)
	}
	err := b.SendMsg(m)
	if err == io.EOF && !b.admission() {
		s.judge(b)
		err = nil
	}
	return s.sendError(err)
}

// sendError is err, or io.EOF if the stream has ended: RecvMsg says why. Generated code that sends one message takes
// an io.EOF for the call's own end, so there it is nil.
func (s *stream) sendError(err error) error {
	switch {
	case s.end.Load() != nil && !s.desc.ClientStreams:
		return nil
	case s.end.Load() != nil:
		return io.EOF
	case err == nil || err == io.EOF:
		return err
	}
	b := s.cur.Load()
	return ended(s.method, b.at, b.hop, nil, err)
}

// keep holds m for the next attempt. A message must not be changed once it was given to SendMsg: gRPC demands that too.
func (s *stream) keep(m any) {
	s.sent = append(s.sent, m)
	if p, ok := m.(proto.Message); ok {
		s.size += proto.Size(p)
	} else {
		s.size += 4 << 10 // who knows
	}
}

// room returns the attempt to send on, once there is room to keep another message: if need be it waits until the stream is
// admitted. nil: the stream has ended.
func (s *stream) room() *branch {
	for {
		b := s.cur.Load()
		if s.end.Load() != nil {
			return nil
		}
		if b.admitted.Load() {
			s.sent = nil
			return b
		}
		if s.size < s.c.conf.Replay {
			return b
		}
		if !b.admission() {
			s.judge(b)
		}
	}
}

// CloseSend ends the sending side.
func (s *stream) CloseSend() error {
	if err := s.take(); err != nil {
		return err
	}
	defer s.give()
	if s.closed {
		return nil
	}
	s.closed = true
	switch b := s.cur.Load(); {
	case s.end.Load() != nil:
		return nil
	case b == nil:
		_, err := s.c.key.find(s.ctx, s.method, nil)
		s.finish(keyless(s.method, err))
		return nil
	default:
		return b.CloseSend()
	}
}

// Header waits for the owner's header. nil without an error: the stream has ended, and RecvMsg says how.
func (s *stream) Header() (metadata.MD, error) {
	b, err := s.settle()
	if b == nil {
		if s.end.Load() != nil {
			return nil, nil
		}
		return nil, err
	}
	md, err := b.Header()
	return withoutOwn(md), err
}

// RecvMsg receives into m. While the stream has not begun it waits.
func (s *stream) RecvMsg(m any) error {
	b, err := s.settle()
	if b == nil {
		return err
	}
	err = b.RecvMsg(m)
	if err == nil || err == io.EOF {
		return err
	}
	return ended(s.method, b.at, b.hop, b.Trailer(), err)
}

// Trailer is the owner's, once RecvMsg has returned an error.
func (s *stream) Trailer() metadata.MD {
	if b := s.cur.Load(); b != nil {
		return withoutOwn(b.Trailer())
	}
	return nil
}

// Context is that of the attempt under way; until there is one, the caller's.
func (s *stream) Context() context.Context {
	if b := s.cur.Load(); b != nil {
		return b.Context()
	}
	return s.ctx
}
