package idem

import (
	"context"
	"errors"
	"time"
)

// keep extends the attempt while fn runs: at each third of it, and sooner after a failure. If it can't be extended
// before it has ended, others may take over, so fn's context ends. Most operations are over before
// the first third, and then there is never a goroutine. The function that it returns stops it and
// waits for it.
func (o *Op) keep() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.life)) // the caller's end is not the attempt's
	ended := make(chan struct{})
	third := o.e.c.Attempt / 3
	timer := time.AfterFunc(third, func() {
		defer close(ended)
		for next := time.Duration(0); sleep(ctx, next+1); {
			next = o.extend(ctx, third)
			if next == 0 {
				return
			}
		}
	})
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if !timer.Stop() {
			<-ended
		}
	}
}

// extend extends the attempt, and returns when to do so again; 0 if it is lost.
func (o *Op) extend(ctx context.Context, third time.Duration) time.Duration {
	if o.over.Load() {
		return third
	}
	timeout := third
	if left := o.left(); left > 0 { // else the process was asleep, and it may be that nobody has come meanwhile
		timeout = min(third, left)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := time.Now()
	err := o.prolong(ctx)
	if conflict, ok := err.(*ConflictError); ok {
		h, unreadable := decodeHead(conflict.Current, o.q)
		if unreadable == nil && h.Claim == o.claim {
			err = nil // a step was recorded meanwhile
		} else {
			o.lose(errTaken)
			return 0
		}
	}
	if err == nil {
		o.touched(sent)
		return third
	}
	left := o.left()
	if left <= 0 {
		o.lose(errors.Join(refused("idem: the attempt has ended, because it could not be extended"), err))
		return 0
	}
	return min(third/4, left)
}

// prolong extends the attempt in the store. That leaves the time at which the record is forgotten as it is, so once
// a third of it is over the record is written anew instead: else it would be gone while fn runs. Two thirds are more
// than an attempt, which ends fn if neither can be done. A step whose turn it is writes the record itself.
func (o *Op) prolong(ctx context.Context) error {
	if age := time.Since(o.begun) - time.Duration(o.written.Load()); age >= o.e.forget()/3 {
		select {
		case o.turn <- struct{}{}:
			defer o.unlock()
			if o.over.Load() {
				return nil
			}
			return o.write(ctx, nil, false, func(*head) {})
		default:
		}
	}
	return o.e.store.Extend(ctx, o.id, o.rev.Load(), o.e.c.Attempt)
}

// left is how much of the attempt is left, from when the last extension was sent.
func (o *Op) left() time.Duration {
	return time.Duration(o.until.Load()) - time.Since(o.begun)
}
