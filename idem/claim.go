package idem

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// opening is a chance to run an operation: the head that claims it, over the revision that was seen.
type opening struct {
	id          string
	rev         int64
	head        head
	interrupted bool // nobody knows how far the try before has come
}

// finding is what a claim comes to if it is not one: the operation has finished.
type finding struct {
	body []byte // as JSON
}

const claimTries = 16 // lost races, before it is an error

// negotiate looks for an opening and lets take try it. take returns nil if it has got it, a *ConflictError
// if somebody was quicker, which is looked at in turn, or an error that ends it all. The finding is nil
// if take got it.
//
// It begins by trying as if nothing were there. If something is, the conflict brings it along. So a first
// try costs no read, and a replay no more than one.
func (e *Engine) negotiate(ctx context.Context, q Request, take func(opening) error) (*finding, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	waits := time.Now().Add(q.Wait)
	id := q.id()
	var there Record
	for try, wait := 1, 1; ; {
		o, found, err := e.weigh(id, there, q)
		if found != nil {
			return found, err
		}
		if _, busy := err.(*InProgressError); busy && time.Now().Before(waits) {
			bounded, cancel := context.WithDeadline(ctx, waits)
			pause(bounded, wait+2)
			cancel()
			wait++
			if ctx.Err() != nil {
				return nil, &opError{"waiting for the try that is in progress", context.Cause(ctx), cas.NotApplied}
			}
			if there, err = e.store.Get(ctx, id); err != nil {
				return nil, &opError{"waiting for the try that is in progress", err, cas.NotApplied}
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		err = take(o)
		conflict, raced := err.(*ConflictError)
		if !raced {
			return nil, err
		}
		there = conflict.Current
		if try++; try > claimTries {
			return nil, &opError{"claiming the operation", cas.ErrContended, cas.NotApplied}
		}
		if try > 4 && !pause(ctx, try) {
			return nil, &opError{"claiming the operation", context.Cause(ctx), cas.NotApplied}
		}
	}
}

// weigh decides by what is there whether q may be run. It has no side effect.
func (e *Engine) weigh(id string, there Record, q Request) (opening, *finding, error) {
	h := head{Format: headFormat, Scope: q.Scope, Key: q.Key, Print: q.print()}
	interrupted := false
	if there.Rev != 0 {
		var err error
		if h, err = decodeHead(there, q); err != nil {
			return opening{}, nil, err
		}
		if err := h.compare(q); err != nil {
			return opening{}, nil, err
		}
		if h.State == done || h.State == failed {
			body, err := h.replay(there)
			return opening{}, &finding{body}, err
		}
		rank := h.rank(q.Token)
		if rank < 0 {
			return opening{}, nil, &SupersededError{Mine: q.Token.Epoch, Current: h.Token.Epoch}
		}
		if h.State == running && rank == 0 && there.Attempt > 0 {
			return opening{}, nil, &InProgressError{RetryAfter: there.Attempt}
		}
		interrupted = h.State == running || h.Interrupted
		if interrupted && q.Interrupted.block {
			return opening{}, nil, &InterruptedError{Key: q.Key, Tries: h.Tries}
		}
	}
	h.State, h.Claim, h.Write, h.Interrupted = running, rand.Text(), 1, false
	h.Tries++
	if !q.Token.IsZero() {
		tok := q.Token
		h.Token = &tok
	}
	return opening{id: id, rev: there.Rev, head: h, interrupted: interrupted}, nil, nil
}

// begin claims the operation. op is nil if there is nothing to run.
func (e *Engine) begin(ctx context.Context, q Request) (op *Op, found *finding, err error) {
	found, err = e.negotiate(ctx, q, func(o opening) error {
		b, err := o.head.encode()
		if err != nil {
			return err
		}
		sent := time.Now()
		rev, err := e.swap(ctx, o.id, o.rev, Put{Head: b, Attempt: e.c.Attempt, Forget: e.forget()}, &o.head, false)
		if err == nil {
			op = e.newOp(q, o, rev, sent)
			return nil
		}
		if _, raced := err.(*ConflictError); raced {
			return err
		}
		// If the claim has been made all the same, it ends with its attempt.
		return &opError{"claiming the operation; nothing was run", err, cas.NotApplied}
	})
	return op, found, err
}
