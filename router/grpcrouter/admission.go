package grpcrouter

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tenure-go/tenure/router/internal/trip"
)

// settle waits until an attempt was admitted, or the stream has ended: then the branch is nil and the error is how.
// For who receives; it does not have the turn.
func (s *stream) settle() (*branch, error) {
	select {
	case <-s.begun:
	case <-s.ctx.Done():
		return nil, s.gaveUp()
	}
	for {
		b := s.cur.Load()
		if e := s.end.Load(); e != nil {
			return nil, e.err
		}
		if b.admission() {
			s.forget()
			return b, nil
		}
		select {
		case <-b.over:
			continue
		case <-s.turn:
		}
		// Not here: what is sent again may be more than the owner takes before somebody receives what it says. It ends with
		// the stream.
		go func() {
			defer s.give()
			if s.cur.Load() == b && s.end.Load() == nil {
				s.judge(b)
			}
		}()
		<-b.over
	}
}

// forget lets go of what was sent, unless somebody is sending: who sends next does it then.
func (s *stream) forget() {
	select {
	case <-s.turn:
		s.sent = nil
		s.give()
	default:
	}
}

// judge looks at how b ended, which was not admitted: refused, so that the stream is opened elsewhere, or for good. The
// caller has the turn.
func (s *stream) judge(b *branch) {
	err := b.RecvMsg(new(emptypb.Empty)) // there is no message, only an end
	if err == nil {
		err = errors.New("grpcrouter: a message without a header") // gRPC sends none
	}
	trailer := b.Trailer()
	switch {
	case s.route.refused(b.at, b.hop, trailer):
		if err := s.route.trip.Rest(s.ctx); err != nil {
			s.finish(s.route.notSent(s.ctx, err))
			return
		}
		s.open()
	case err == io.EOF:
		s.finish(io.EOF)
	default:
		s.finish(ended(s.method, b.at, b.hop, trailer, err))
	}
}

// open makes attempts until one is under way, with all that was sent so far sent again, or the stream has ended. The caller has
// the turn.
func (s *stream) open() {
	defer s.start()
	for {
		at, err := s.route.trip.Next(s.ctx)
		if err != nil {
			s.finish(s.route.notSent(s.ctx, err))
			return
		}
		b, again, err := s.branch(at)
		if err == nil && s.replay(b) {
			return
		}
		if err == nil { // it has ended meanwhile
			if !b.admission() {
				s.judge(b)
			}
			return
		}
		if again {
			err = s.route.trip.Rest(s.ctx)
		}
		if err != nil {
			s.finish(s.route.notSent(s.ctx, err))
			return
		}
	}
}

// branch opens one attempt.
func (s *stream) branch(at trip.Stop) (b *branch, again bool, err error) {
	l, done, err := s.c.pool.get(at.Target)
	if err != nil {
		return nil, false, err
	}
	b = &branch{at: at, hop: newHop(at, s.desc.ClientStreams), over: make(chan struct{})}
	b.ClientStream, err = l.NewStream(b.hop.mark(s.ctx, s.route.md), s.desc, s.method,
		attemptOptions(s.opts, grpc.OnFinish(func(error) { done() }))...)
	if err != nil {
		done()
		return nil, s.route.unreached(s.ctx, at, err), err
	}
	if last := s.cur.Swap(b); last != nil {
		last.leave()
	}
	return b, false, nil
}

// replay sends on b what was sent before. false: b has ended.
func (s *stream) replay(b *branch) bool {
	for _, m := range s.sent {
		switch err := b.SendMsg(m); {
		case err == io.EOF:
			return false
		case err != nil:
			s.finish(ended(s.method, b.at, b.hop, nil, err))
			return true
		}
	}
	if s.closed {
		_ = b.CloseSend()
	}
	return true
}
