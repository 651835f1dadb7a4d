package idem

import (
	"context"
	"sync"
	"time"
)

// deadline is context.WithDeadline that makes its timer when somebody waits for Done. Every record is written under one, and a
// store that answers at once never looks.
type deadline struct {
	context.Context // the one before
	at              time.Time

	mu    sync.Mutex // guards what follows
	real  context.Context
	end   context.CancelFunc
	ended bool // by cancel
}

func withTimeout(ctx context.Context, d time.Duration) *deadline {
	at := time.Now().Add(d)
	if before, ok := ctx.Deadline(); ok && before.Before(at) {
		at = before
	}
	return &deadline{Context: ctx, at: at}
}

// arm returns the context that waits.
func (d *deadline) arm() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.real == nil {
		d.real, d.end = context.WithDeadline(d.Context, d.at)
		if d.ended {
			d.end()
		}
	}
	return d.real
}

// cancel ends it. Who called withTimeout calls it in the end.
func (d *deadline) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.end != nil {
		d.end()
	}
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }
func (d *deadline) Done() <-chan struct{}       { return d.arm().Done() }

func (d *deadline) Err() error {
	d.mu.Lock()
	waiting := d.real == nil && !d.ended
	d.mu.Unlock()
	if waiting && time.Now().Before(d.at) && d.Context.Err() == nil {
		return nil
	}
	return d.arm().Err()
}

// Value asks the context that waits if there is one: that is how package context finds it, so that what is derived from this
// one takes no goroutine, and the cause.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	from := d.real
	d.mu.Unlock()
	if from == nil {
		from = d.Context
	}
	return from.Value(key)
}
