package memkv

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// send takes one request to the server and back, through whatever faults c has.
func send[T any](ctx context.Context, c *Client, call Call, carryOut func() (T, error)) (T, error) {
	var zero T
	select {
	case <-c.closed:
		return zero, fmt.Errorf("memkv: %s: %w", call.Kind, cas.ErrClosed)
	default:
	}
	if ctx.Err() != nil {
		return zero, &failure{call.Kind.String() + " not sent", cas.ErrUnavailable, context.Cause(ctx)}
	}
	fate := c.fate.Load()
	if fate == nil && !c.link.Load().cut {
		return carryOut()
	}
	var f Fate
	if fate != nil {
		f = (*fate)(call)
	}
	if f.Loss == Connection {
		return zero, fmt.Errorf("memkv: %s not sent, connection refused: %w", call.Kind, cas.ErrUnavailable)
	}
	arrives := time.Now().Add(f.Delay)
	if err := c.travel(ctx, call, f.Delay); err != nil {
		// A read that nobody waits for changes nothing, and a request cut off never left.
		if call.writes() && f.Loss != Request && !c.link.Load().cut {
			time.AfterFunc(time.Until(arrives), func() { _, _ = carryOut() })
		}
		return zero, err
	}
	if f.Loss == Request {
		return zero, c.lost(ctx, call, f.Hang)
	}
	v, err := carryOut()
	if f.Loss == Reply {
		return zero, c.lost(ctx, call, f.Hang)
	}
	if err := c.travel(ctx, call, f.Reply); err != nil {
		return zero, err
	}
	return v, err
}

// travel returns nil once d has passed and c is not cut off.
func (c *Client) travel(ctx context.Context, call Call, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return doubt(call, context.Cause(ctx))
		case <-c.closed:
			return doubt(call, cas.ErrClosed)
		}
	}
	for {
		l := c.link.Load()
		if !l.cut {
			return nil
		}
		select {
		case <-l.flipped:
		case <-ctx.Done():
			return doubt(call, context.Cause(ctx))
		case <-c.closed:
			return doubt(call, cas.ErrClosed)
		}
	}
}

// lost is what the caller of a lost request or reply sees, and when.
func (c *Client) lost(ctx context.Context, call Call, hang bool) error {
	if hang {
		select {
		case <-ctx.Done():
			return doubt(call, context.Cause(ctx))
		case <-c.closed:
			return doubt(call, cas.ErrClosed)
		}
	}
	return doubt(call, errBroken)
}

var errBroken = fmt.Errorf("connection broke before the reply")

// doubt is the error of a request that was sent and not answered.
func doubt(call Call, cause error) error {
	if call.writes() {
		return &failure{call.Kind.String(), cas.ErrUncertain, cause}
	}
	return &failure{call.Kind.String(), cas.ErrUnavailable, cause}
}

// failure is the error of a request that something came between. Its outcome is its own: the
// cause may be the one that the caller's context was ended with, which may be an error of
// another request and have another outcome.
type failure struct {
	what  string
	is    error // the cas error that it amounts to
	cause error
}

func (f *failure) Error() string        { return fmt.Sprintf("memkv: %s: %v: %v", f.what, f.is, f.cause) }
func (f *failure) Unwrap() []error      { return []error{f.is, f.cause} }
func (f *failure) Outcome() cas.Outcome { return cas.OutcomeOf(f.is) }
