package cas

import (
	"context"
	"encoding/json"
	"fmt"
)

// UpdateAll changes several keys in one commit, which is made only if everything that f has read is
// still as f has read it; else f runs again, on what is there then. It returns what f returned in the
// run that was committed. A draft that writes nothing is a consistent read of several keys.
//
//	left, err := cas.UpdateAll(ctx, store, "transfer", func(d *cas.Draft) (int, error) {
//		from, err := cas.Read[account](d, "accounts/ann")
//		…
//		return from.Balance, cas.Write(d, "accounts/ann", from)
//	}, cas.UpdateConfig{Receipt: id})
//
// All that one run reads is of one revision, in a run that comes to nothing as well: f never sees
// half of somebody's change. Keys need not be known beforehand. Each that is new costs a round trip
// (see Draft.Fetch), in which those read so far are looked at again. A retry starts with all keys
// that the conflict brought along. Reads, guards and receipt are conditions of one commit:
// at most MaxOps in all.
//
// The first three retries follow at once, later ones wait at random, longer and longer, and read again.
//
// f runs in the caller's goroutine, possibly several times, and not at all if the receipt says that the
// operation was applied: so what it finds out has to be in what it returns, and it must have no
// other effect. With a Receipt, that is kept as JSON, and is what a later call with the same name and
// receipt returns. The name, which must not be empty, says in errors what was tried.
//
// Errors are those of Update. There is no queue: under heavy contention one that reads much may
// lose every time to those that read little, until its Tries are used up (ErrContended). One of those that
// conflict always wins, so somebody gets on.
func UpdateAll[R any](ctx context.Context, s KV, name string, f func(d *Draft) (R, error), c UpdateConfig) (R, error) {
	e := newEffort(s, name, c)
	a := updateAll[R]{effort: e, f: f, known: make(map[string]Entry)}
	err := notApplied(e.what, fmt.Errorf("%w: UpdateAll has no name", ErrInvalid))
	if name != "" {
		err = e.make(ctx, &a)
	}
	v, err := result(e, a.v, err)
	e.end(err)
	return v, err
}

// updateAll is the keys that UpdateAll works on.
type updateAll[R any] struct {
	effort *effort
	f      func(*Draft) (R, error)
	known  map[string]Entry // of one revision
	read   []string         // what the latest run has read
	stale  bool             // and it is to be read anew before the next
	asked  bool             // the receipt was looked at
	v      R
}

func (a *updateAll[R]) see(c *ConflictError) {
	a.asked = true
	clear(a.known)
	for _, e := range c.Current {
		a.known[e.Key] = e
	}
}

func (a *updateAll[R]) forget() { a.stale = true }

// refresh reads at once what the latest run has read.
func (a *updateAll[R]) refresh(ctx context.Context) error {
	clear(a.known)
	if len(a.read) > 0 {
		now, err := a.look(ctx, a.read...)
		if err != nil {
			return passing(err)
		}
		a.see(now)
	}
	a.stale = false
	return a.effort.news()
}

func (a *updateAll[R]) draft(ctx context.Context) (Txn, error) {
	if a.stale {
		if err := a.refresh(ctx); err != nil {
			return Txn{}, err
		}
	}
	d := &Draft{ctx: ctx, look: a.look, news: a.effort.news, known: a.known, read: make(map[string]Entry), index: make(map[string]int)}
	v, err := a.f(d)
	d.over, a.read = true, d.touched
	if _, again := d.err.(*retryError); again {
		return Txn{}, d.err
	}
	if err == nil {
		err = d.err
	}
	if err != nil {
		return Txn{}, a.refusal(ctx, err)
	}
	a.v = v
	if len(d.writes) == 0 && len(a.effort.config.Guards) == 0 && a.effort.receipt.key == "" {
		return Txn{}, errDone // what was read last shows that what was read before still stood
	}
	conds := make([]Cond, 0, len(d.touched))
	for _, key := range d.touched {
		conds = append(conds, AtRev(key, d.read[key].Rev))
	}
	var value json.RawMessage
	if a.effort.receipt.key != "" {
		if value, err = json.Marshal(v); err != nil {
			return Txn{}, fmt.Errorf("the result does not write as JSON: %w", err)
		}
	}
	return a.effort.txn(conds, d.writes, value)
}

func (a *updateAll[R]) look(ctx context.Context, keys ...string) (*ConflictError, error) {
	now, err := a.effort.receipt.look(ctx, a.effort.s, keys...)
	if err == nil {
		a.asked = true
	}
	return now, err
}

// refusal is f's error, unless the receipt, if nobody has looked at it yet, makes it beside the point.
func (a *updateAll[R]) refusal(ctx context.Context, err error) error {
	if a.effort.receipt.key != "" && !a.asked {
		if _, err := a.look(ctx); err != nil {
			return passing(err)
		}
		if err := a.effort.news(); err != nil {
			return err
		}
	}
	return notApplied(a.effort.what, err)
}
