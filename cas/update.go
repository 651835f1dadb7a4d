package cas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// UpdateConfig tunes Update. The zero value is ready to use.
type UpdateConfig struct {
	// Guards are checked in the same commit. One that does not hold ends Update at once.
	Guards []Cond

	// Receipt is an operation's id: at most 256 bytes, without "/". With it Update happens
	// at most once for this key, however often it is called and by whomever, and an uncertain
	// outcome is resolved. See the package documentation. Defaults to "": no receipt.
	Receipt string

	// Tries is how many commits are tried before ErrContended. Defaults to 10.
	Tries int
}

const defaultTries = 10

// Waits between tries are drawn evenly from 0 to a bound that doubles.
const (
	waitFirst = 2 * time.Millisecond
	waitMost  = 250 * time.Millisecond
)

// ErrContended: others changed the key each time Update tried. Nothing was applied.
var ErrContended error = &outcomeError{"cas: gave up after too many conflicts", NotApplied}

// Get reads key's value as JSON. An absent key is the zero T at revision 0, and no error.
func Get[T any](ctx context.Context, s KV, key string) (v T, rev int64, err error) {
	e, err := s.Get(ctx, key)
	if err != nil {
		return v, 0, fmt.Errorf("cas: get: %w", err)
	}
	v, err = decode[T](e)
	if err != nil {
		return v, 0, notApplied(fmt.Sprintf("cas: get %q", key), err)
	}
	return v, e.Rev, nil
}

// Update replaces key's value (JSON; the zero T if the key is absent) by what f makes of it,
// if nobody else changes the key meanwhile, and tries again if somebody does. It returns the
// value that is now stored. A retry starts from what the conflict brought along, and costs
// one round trip. A key that is under a lease stays under it.
//
// f runs in the caller's goroutine, possibly several times, each time on a fresh value, so it
// must have no side effect. Its error stops Update.
//
// Errors, by what they say of the outcome:
//   - not applied: f's error, wrapped; a *ConflictError with the failed guard's entry;
//     ErrContended; the context's error before or between tries; whatever the store refuses.
//   - uncertain: ErrUncertain, if a reply was lost and there is no Receipt, or if the store
//     could not be asked again before ctx ended or Tries were used up. Call Update again with
//     the same Receipt to find out.
//
// An error of f or of a guard is about this call. If an earlier one with the same Receipt
// ended in ErrUncertain, [Resolve] tells about that.
func Update[T any](ctx context.Context, s KV, key string, f func(v *T) error, c UpdateConfig) (T, error) {
	v, err := update(ctx, s, key, f, c)
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

func update[T any](ctx context.Context, s KV, key string, f func(v *T) error, c UpdateConfig) (v T, err error) {
	what := fmt.Sprintf("cas: update %q", key)
	if c.Tries <= 0 {
		c.Tries = defaultTries
	}
	r, err := newReceipt(key, c.Receipt)
	if err != nil {
		return v, fmt.Errorf("%s: %w", what, err)
	}
	entry, err := r.read(ctx, s, key)
	if err != nil {
		return v, notApplied(what, err)
	}
	for try := 1; ; try++ {
		if stored, done, err := result[T](&r); done || err != nil {
			return stored, err
		}
		v, err = decode[T](entry)
		if err == nil {
			err = f(&v)
		}
		if err != nil {
			return v, notApplied(what, err)
		}
		txn, err := r.txn(entry, v, c.Guards)
		if err != nil {
			return v, notApplied(what, err)
		}
		_, err = s.Commit(ctx, txn)
		if err == nil {
			return v, nil
		}

		// The outcome comes first: err may wrap the cause of ctx's end, and what Is and As find
		// in there is not about this commit.
		outcome := OutcomeOf(err)
		conflict := conflictOf(txn, err)
		switch {
		case outcome == Uncertain && r.key != "":
			if err := r.close(ctx, s, c.Tries); err != nil {
				return v, fmt.Errorf("%s: %w", what, err)
			}
			err = fmt.Errorf("%w: %w", ErrContended, errAborted)
		case conflict != nil:
			r.see(conflict)
			if guard := failed(c.Guards, conflict); guard != nil && !r.applied() {
				return v, fmt.Errorf("%s: guard on %q: %w", what, guard.Key, err)
			}
			entry = find(conflict, key)
			err = fmt.Errorf("%w: %w", ErrContended, err)
		case outcome == NotApplied && (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNoLeader)):
		default:
			return v, fmt.Errorf("%s: %w", what, err)
		}
		if r.applied() {
			continue
		}
		if try >= c.Tries {
			return v, notApplied(fmt.Sprintf("%s: %d tries", what, try), err)
		}
		if cause := wait(ctx, try); cause != nil {
			return v, notApplied(what, fmt.Errorf("%w after %w", cause, err))
		}
	}
}

// conflictOf returns the conflict that err, of t's commit, is: not one that err merely has
// somewhere in it. nil if it is none, or doesn't say what there is at each key of t.If.
func conflictOf(t Txn, err error) *ConflictError {
	if OutcomeOf(err) != NotApplied {
		return nil
	}
	for err != nil {
		if c, ok := err.(*ConflictError); ok && c != nil {
			for _, cond := range t.If {
				if !slices.ContainsFunc(c.Current, func(e Entry) bool { return e.Key == cond.Key }) {
					return nil
				}
			}
			return c
		}
		err = errors.Unwrap(err) // nil if there are several
	}
	return nil
}

// find returns key's entry in c.
func find(c *ConflictError, key string) Entry {
	for _, e := range c.Current {
		if e.Key == key {
			return e
		}
	}
	return Entry{Key: key}
}

// failed returns the first of guards that did not hold.
func failed(guards []Cond, c *ConflictError) *Cond {
	for i := range guards {
		if !guards[i].Holds(find(c, guards[i].Key)) {
			return &guards[i]
		}
	}
	return nil
}

func decode[T any](e Entry) (v T, err error) {
	if e.Rev == 0 {
		return v, nil
	}
	if err := json.Unmarshal(e.Value, &v); err != nil {
		return v, fmt.Errorf("the value at revision %d does not read as %T: %w", e.Rev, v, err)
	}
	return v, nil
}

// wait returns nil after a random time, or the cause of ctx's end.
func wait(ctx context.Context, try int) error {
	most := waitMost
	if try < 8 {
		most = min(most, waitFirst<<(try-1))
	}
	t := time.NewTimer(rand.N(most))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// decidedError is an error whose outcome does not depend on what it wraps: the wrapped one
// may be f's own, and say something about something else.
type decidedError struct {
	what    string
	err     error
	outcome Outcome
}

func (e *decidedError) Error() string    { return e.what + ": " + e.err.Error() }
func (e *decidedError) Unwrap() error    { return e.err }
func (e *decidedError) Outcome() Outcome { return e.outcome }

func notApplied(what string, err error) error { return &decidedError{what, err, NotApplied} }
