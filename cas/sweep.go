package cas

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Sweep forgets the receipts of operations that began longer than age ago, by their ids, which
// Dated made, and returns how many it has deleted. It leaves other receipts alone. Call it now and then,
// say each hour, from one place or from several.
//
// First it raises the horizon: the date, to the minute, before which receipts may be gone. Every
// try with a dated receipt commits on the condition that the horizon is as it was read together
// with the receipt, and none is made, nor is one that is under way applied, for an operation that
// began before it. So a retry that comes too late, however late, gets ErrReceiptExpired, and never a
// second application. No clock decides about that; but a sweeper's clock that is fast by more than age
// makes operations expire that have just begun, and the horizon never goes back.
//
// So age is how long after an operation's beginning somebody may still try it or ask what became of it: a
// day, say. It is at least a minute. Each operation that is under way when the horizon rises
// has one conflict more.
//
// Then it deletes, in transactions of at most MaxOps, minute by minute. On an error, or when ctx ends,
// it stops; what it has deleted stays deleted and counts, and another Sweep goes on from there.
func Sweep(ctx context.Context, s KV, age time.Duration) (deleted int, err error) {
	if age < time.Minute {
		return 0, fmt.Errorf("%w: sweep: age %v: must be at least a minute", ErrInvalid, age)
	}
	w := sweeper{s: s}
	err = w.sweep(ctx, time.Now().Add(-age).UTC().Truncate(time.Minute))
	if err != nil {
		return w.deleted, fmt.Errorf("cas: sweep: %w", err)
	}
	return w.deleted, nil
}

type sweeper struct {
	s       KV
	deleted int
}

func (w *sweeper) sweep(ctx context.Context, before time.Time) error {
	before, err := w.raise(ctx, before)
	if err != nil {
		return err
	}
	e, err := w.s.Get(ctx, sweptKey)
	if err != nil {
		return err
	}
	from, err := horizonOf(e)
	if err != nil {
		return err
	}
	if first := time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC); from.Before(first) {
		from = first
	}
	if !from.Before(before) {
		return nil
	}
	// To look for years costs the store a walk over all of their receipts.
	level := 0
	if before.Sub(from) < 48*time.Hour {
		level = hours
	}
	if err := w.periods(ctx, level, from, before); err != nil {
		return err
	}
	swept, err := putDate(sweptKey, before)
	if err != nil {
		return err
	}
	// Of two sweepers the slower may write last, and a lower date: then something is looked for
	// once more.
	_, err = w.s.Commit(ctx, Txn{Then: []Op{swept}})
	return err
}

// raise sets the horizon to before, and returns the one that is in force, which may be later.
func (w *sweeper) raise(ctx context.Context, before time.Time) (time.Time, error) {
	for try := 1; ; try++ {
		e, err := w.s.Get(ctx, horizonKey)
		if err == nil {
			var now time.Time
			if now, err = horizonOf(e); err != nil {
				return now, err
			}
			if !now.Before(before) {
				return now, nil
			}
			var put Op
			if put, err = putDate(horizonKey, before); err != nil {
				return now, err
			}
			if _, err = w.s.Commit(ctx, Txn{If: []Cond{AtRev(horizonKey, e.Rev)}, Then: []Op{put}}); err == nil {
				return before, nil
			}
		}
		// Whatever the outcome, the next read tells.
		if try >= defaultTries {
			return time.Time{}, err
		}
		if cause := wait(ctx, try, waitAway); cause != nil {
			return time.Time{}, fmt.Errorf("%w after %w", cause, err)
		}
	}
}

// levels are the periods that receipts are looked for in, each within the one before.
var levels = [...]struct {
	layout string
	next   func(time.Time) time.Time // the beginning of the period after t's
}{
	{"2006", func(t time.Time) time.Time { return time.Date(t.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC) }},
	{"200601", func(t time.Time) time.Time { return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC) }},
	{"20060102", func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC) }},
	{"20060102T15", func(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }},
	{"20060102T1504", func(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }},
}

const hours = 3 // the index in levels

// periods deletes what lies from one date to another.
func (w *sweeper) periods(ctx context.Context, level int, from, to time.Time) error {
	for t := from; t.Before(to); t = levels[level].next(t) {
		prefix := datedPrefix + t.Format(levels[level].layout)
		if level == len(levels)-1 {
			if err := w.minute(ctx, prefix); err != nil {
				return err
			}
			continue
		}
		d, err := w.s.Digest(ctx, prefix, 0)
		if err != nil {
			return err
		}
		if d.Count == 0 {
			continue
		}
		end := levels[level].next(t)
		if to.Before(end) {
			end = to
		}
		if err := w.periods(ctx, level+1, t, end); err != nil {
			return err
		}
	}
	return nil
}

func (w *sweeper) minute(ctx context.Context, prefix string) error {
	snap, err := w.s.List(ctx, prefix)
	if err != nil {
		return err
	}
	var batch []Op
	for i, e := range snap.Entries {
		// The receipt of an undated id on a key that begins like a date lies here too.
		if _, dated := stampOf(e.Key[strings.LastIndex(e.Key, "/")+1:]); dated {
			batch = append(batch, Delete(e.Key))
		}
		if len(batch) == 0 || len(batch) < MaxOps && i < len(snap.Entries)-1 {
			continue
		}
		// No condition: nothing is written here any more.
		if _, err := w.s.Commit(ctx, Txn{Then: batch}); err != nil {
			return err
		}
		w.deleted += len(batch)
		batch = nil
	}
	return nil
}
