package idem

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Config tunes an Engine. The zero value is a good one. Programs that share a store must agree on it.
type Config struct {
	// Attempt is how long a try that is not heard of any more keeps others out. While fn runs it is extended, each
	// third of it, so it bounds no fn: it is the time that a crash costs, where no Token shortens it.
	// Defaults to 1m; at least 1s, and stores on etcd round it up to 2s.
	Attempt time.Duration

	// Keep is how long a result is replayed. Defaults to 24h.
	Keep time.Duration

	// Tombstone is how long after that a late try gets *ExpiredError. Afterwards the key is as new, so
	// it has to be longer than anybody retries. Defaults to 168h, a week.
	Tombstone time.Duration

	// Finish bounds the recording of what has been done: of a step, a result, or giving up. It goes on
	// for as long when the caller's context has ended. Defaults to 5s.
	Finish time.Duration

	// MaxResult is the largest result, of an operation or a step, that is kept, in bytes as JSON. A
	// larger one goes to the try that made it, and later ones get *TooLargeError. Defaults to 64 KiB.
	MaxResult int
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	for _, d := range []struct {
		name  string
		field *time.Duration
		value time.Duration
		least time.Duration
	}{
		{"Attempt", &c.Attempt, time.Minute, time.Second},
		{"Keep", &c.Keep, 24 * time.Hour, time.Second},
		{"Tombstone", &c.Tombstone, 7 * 24 * time.Hour, time.Second},
		{"Finish", &c.Finish, 5 * time.Second, time.Millisecond},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
		if *d.field < d.least || *d.field > maxDuration {
			errs = append(errs, refused("idem: Config.%s: %s: want %s to %s", d.name, *d.field, d.least, maxDuration))
		}
	}
	if c.MaxResult == 0 {
		c.MaxResult = 64 << 10
	}
	if c.MaxResult < 0 {
		errs = append(errs, refused("idem: Config.MaxResult: %d: want 1 or more", c.MaxResult))
	}
	return c, errors.Join(errs...)
}

// maxDuration is far from the limits of every store's clock.
const maxDuration = 10 * 365 * 24 * time.Hour

// Engine runs operations over a store. Make it with New; safe for concurrent use. It has no
// goroutine of its own and needs no Close.
type Engine struct {
	store Store
	c     Config
}

// New checks its arguments, all faults joined, and does no I/O. The Outcome of its error is NotApplied.
func New(s Store, c Config) (*Engine, error) {
	c, err := c.withDefaults()
	if s == nil {
		err = errors.Join(refused("idem: New: the store is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Engine{store: s, c: c}, nil
}

// Store is what New was given.
func (e *Engine) Store() Store { return e.store }

// forget is how long a record stays after it was written: longer than an attempt in any case, and see Op.extend.
func (e *Engine) forget() time.Duration { return max(e.c.Keep+e.c.Tombstone, 2*e.c.Attempt) }

// lasting is the context for recording what has been done, which must not fail because whoever asked
// for it has gone.
func (e *Engine) lasting(ctx context.Context) *deadline {
	return withTimeout(context.WithoutCancel(ctx), e.c.Finish)
}

// swap writes p over rev, and finds out what became of a write whose reply was lost: it sends the same
// write again, which does no harm, since either can only be applied where the other has not been. Then
// the second is applied, or there is a conflict; and what is there tells by claim and count whether
// it was the first.
//
// With patience it also goes on while the store can't be reached, until ctx ends. An error other
// than *ConflictError is NotApplied or Uncertain as cas.OutcomeOf says.
func (e *Engine) swap(ctx context.Context, id string, rev int64, p Put, h *head, patient bool) (int64, error) {
	lost := false
	for try := 1; ; try++ {
		n, err := e.send(ctx, id, rev, p, patient)
		if err == nil {
			return n, nil
		}
		if conflict, ok := err.(*ConflictError); ok {
			if h.wrote(conflict.Current) {
				return conflict.Current.Rev, nil
			}
			return 0, conflict
		}
		if cas.OutcomeOf(err) != cas.NotApplied {
			lost = true
		}
		again := lost && try < 8 || patient && !errors.Is(err, cas.ErrInvalid) && !errors.Is(err, cas.ErrDenied)
		if !again || !pause(ctx, try) {
			if lost {
				err = &opError{"writing the record", errors.Join(cas.ErrUncertain, err), cas.Uncertain}
			}
			return 0, err
		}
	}
}

// send sends a write once. With patience it is given a part of the time only, because one that hangs may
// hang until the end, and another connection may do better.
func (e *Engine) send(ctx context.Context, id string, rev int64, p Put, patient bool) (int64, error) {
	if !patient {
		return e.store.Swap(ctx, id, rev, p)
	}
	part := withTimeout(ctx, max(e.c.Finish/4, time.Millisecond))
	defer part.cancel()
	return e.store.Swap(part, id, rev, p)
}

// wrote reports whether r is what h was written as.
func (h *head) wrote(r Record) bool {
	if !bytes.Contains(r.Head, []byte(h.Claim)) { // as a rule; and cheaper than to read it
		return false
	}
	there, err := decodeHead(r, Request{Scope: h.Scope, Key: h.Key})
	return err == nil && there.Claim == h.Claim && there.Write == h.Write
}
