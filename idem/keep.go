package idem

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// keeper extends the attempt while fn runs: at each third of it, and sooner after a failure. If it can't be extended
// before it has ended, others may take over, so fn's context ends. Most operations are over before
// the first third: for them it is a timer that is stopped, and never a goroutine or a context.
type keeper struct {
	o     *Op
	timer *time.Timer
	ended sync.WaitGroup // the goroutine, or the timer that will start none

	mu      sync.Mutex // guards what follows
	stopped bool
	end     context.CancelFunc // of the goroutine's context; nil before it runs
}

// keep starts o's keeper.
func (o *Op) keep() {
	k := &o.keeper
	k.o = o
	k.ended.Add(1)
	k.timer = time.AfterFunc(o.e.c.Attempt/3, k.run)
}

func (k *keeper) run() {
	defer k.ended.Done()
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.o.life)) // the caller's end is not the attempt's
	defer cancel()
	if !k.begin(cancel) {
		return
	}
	third := k.o.e.c.Attempt / 3
	for next := time.Duration(0); sleep(ctx, next+1); {
		if next = k.o.extend(ctx, third); next == 0 {
			return
		}
	}
}

func (k *keeper) begin(end context.CancelFunc) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end = end
	return !k.stopped
}

// stop ends it, and waits for that. Further calls do nothing.
func (k *keeper) stop() {
	k.mu.Lock()
	first, end := !k.stopped, k.end
	k.stopped = true
	k.mu.Unlock()
	if !first {
		return
	}
	if end != nil {
		end()
	}
	if k.timer.Stop() {
		k.ended.Done()
	}
	k.ended.Wait()
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
	if _, taken := err.(*ConflictError); taken {
		o.lose(errTaken)
		return 0
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
	return o.stretch(ctx, o.rev.Load())
}

// stretch extends the attempt of a record at rev, or at a later revision that is this try's own: a step was recorded meanwhile, or
// is, and its reply has not come. Then it has to be sent again, for that write has set the attempt's end, at its own time. A
// *ConflictError means that another try has taken over.
func (o *Op) stretch(ctx context.Context, rev int64) error {
	for range 4 {
		err := o.e.store.Extend(ctx, o.id, rev, o.e.c.Attempt)
		conflict, ok := err.(*ConflictError)
		if !ok {
			return err
		}
		h, unreadable := decodeHead(conflict.Current, o.q)
		if unreadable != nil || h.Claim != o.claim {
			return conflict
		}
		rev = conflict.Current.Rev
	}
	return &opError{"extending the attempt", cas.ErrContended, cas.NotApplied}
}

// left is how much of the attempt is left, from when the last extension was sent.
func (o *Op) left() time.Duration {
	return time.Duration(o.until.Load()) - time.Since(o.begun)
}
