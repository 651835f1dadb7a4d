package idem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/tenure-go/tenure/cas"
)

// conclude records what fn has returned.
func (o *Op) conclude(ctx context.Context, value any, err error) (result, error) {
	lasting := o.e.lasting(ctx)
	defer lasting.cancel()
	if last := o.ended(lasting); last != nil {
		return o.afterLast(last, value, err)
	}
	switch {
	case err == nil:
		return o.finish(lasting, value)
	case isFinal(err):
		return o.fail(lasting, err)
	}
	lost := o.lost()
	_ = o.giveUp(ctx, o.doubt || interrupts(err)) // if that fails, the next try waits for the attempt's end
	if lost != nil {
		return result{}, &LostError{Err: err}
	}
	return result{}, err
}

// interrupts reports whether a try that ended in err may have had an effect that nobody knows of.
func interrupts(err error) bool {
	return cas.OutcomeOf(err) != cas.NotApplied
}

// ended returns the result that a Last step has recorded, nil if there is none.
func (o *Op) ended(ctx context.Context) []byte {
	if o.lock(ctx) != nil {
		return nil
	}
	defer o.unlock()
	return o.last
}

// afterLast holds fn to what its Last step has recorded, for that is what later tries get.
func (o *Op) afterLast(last []byte, value any, err error) (result, error) {
	if err != nil {
		return result{}, &opError{"the operation has ended with its last step, but fn went on and failed", err, cas.Applied}
	}
	b, err := json.Marshal(value)
	if err != nil || !bytes.Equal(b, last) {
		return result{}, &opError{"the operation has ended with its last step", errOtherValue, cas.Applied}
	}
	return result{value: value}, nil
}

var errOtherValue = errors.New("fn must return what the last step returned: later tries get that")

// finish records that the operation is done, with value as its result.
func (o *Op) finish(ctx context.Context, value any) (result, error) {
	res := result{value: value}
	if r, ok := value.(reconciled); ok {
		value = r.value
	}
	var bad error
	body, err := json.Marshal(value)
	if err != nil {
		bad = &opError{"the operation is done, but its result can't be kept as JSON", err, cas.Applied}
		o.drop(-1)
	}
	if len(body) > o.e.c.MaxResult {
		o.drop(len(body))
	}
	if _, ok := res.value.(reconciled); ok {
		res = result{body: body, replayed: true}
	}
	there, err := o.close(ctx, body, func(h *head) { h.State = done })
	if there != nil {
		return result{body: there.body, replayed: true}, err
	}
	if err == nil {
		err = bad
	}
	return res, err
}

// fail records that the operation has ended in err.
func (o *Op) fail(ctx context.Context, err error) (result, error) {
	message, body, encoding := messageOf(err)
	if encoding != nil {
		return result{}, encoding
	}
	outcome := cas.OutcomeOf(err)
	there, closing := o.close(ctx, body, func(h *head) { h.State, h.Outcome = failed, outcome })
	switch {
	case closing != nil:
		return result{}, errors.Join(closing, err)
	case there != nil:
		return result{body: there.body, replayed: true}, nil
	}
	return result{}, &FailedError{Message: message, Err: err, outcome: outcome}
}

// messageOf is what is kept of a final error: its text, cut to a length that any store takes.
func messageOf(err error) (message string, body []byte, encoding error) {
	const most = 4 << 10
	message = err.Error()
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "…"
	}
	body, encoding = json.Marshal(message)
	return message, body, encoding
}

// close ends the operation in the store. If another try has taken over and finished, that is what counts, and
// is returned.
func (o *Op) close(ctx context.Context, body []byte, change func(*head)) (*finding, error) {
	if err := o.lock(ctx); err != nil {
		return nil, &FinishError{Err: err}
	}
	defer o.unlock()
	write := func() error {
		if o.dropped.Load() {
			body = nil
		}
		return o.write(ctx, body, true, func(h *head) {
			change(h)
			h.Steps = nil
			h.Dropped, h.Size = o.dropped.Load(), 0
			if h.Dropped {
				h.Size = o.size
			}
		})
	}
	err := write()
	if errors.Is(err, cas.ErrInvalid) && body != nil { // larger than the store takes
		o.drop(len(body))
		err = write()
	}
	o.over.Store(true)
	if conflict, taken := err.(*ConflictError); taken {
		if _, found, err := o.e.weigh(o.id, conflict.Current, o.q); found != nil {
			return found, err
		}
		return nil, o.lose(errTaken)
	}
	if err != nil {
		return nil, &FinishError{Err: err}
	}
	return nil, nil
}

// giveUp lets go of the claim, so that the next try need not wait for the attempt's end. If the store
// can't be reached it will have to.
func (o *Op) giveUp(ctx context.Context, interrupted bool) error {
	lasting := o.e.lasting(ctx)
	defer lasting.cancel()
	if err := o.lock(lasting); err != nil {
		return err
	}
	defer o.unlock()
	if o.over.Load() {
		return nil
	}
	o.over.Store(true)
	return o.write(lasting, nil, false, func(h *head) { h.State, h.Interrupted = open, interrupted })
}
