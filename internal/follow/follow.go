// Package follow keeps a reader of a prefix up to date: it lists, watches from there, and, because
// watches are hints that can break, fall silent or miss something, lists again when one did.
package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Config is what to follow and whom to tell. All fields are required but those said to be optional.
type Config struct {
	Store  cas.Store
	Prefix string

	// Listed and Changed are called by Run's goroutine, in order: a list, then changes above it, one
	// revision each and never backwards, then perhaps another list. A list's revision
	// is below one told before only if the store went back.
	Listed  func(cas.Snapshot)
	Changed func(cas.Change)

	// Broken is told why a list failed or a watch ended; Run goes on all the same. Optional.
	Broken func(error)

	Probe   time.Duration   // between two requests for progress; a watch silent for three of them is given up
	Digest  time.Duration   // between two checks against lost events
	Timeout time.Duration   // of one request
	Relist  <-chan struct{} // lists again at each receive. Optional
}

// Why a watch is given up. They reach Broken.
var (
	ErrGap    = errors.New("the store holds other keys than its watch reported")
	ErrSilent = errors.New("the watch does not answer requests for progress")
	ErrAsked  = errors.New("asked to list again")
)

const (
	firstBackoff = 20 * time.Millisecond
	mostBackoff  = 2 * time.Second
)

// Run follows until ctx ends. Nothing of it runs when it has returned.
func Run(ctx context.Context, c Config) {
	for try := 0; ctx.Err() == nil; try++ {
		if try > 0 && Pause(ctx, backoff(try-1)) != nil {
			return
		}
		once, cancel := context.WithTimeout(ctx, c.Timeout)
		snap, err := c.Store.List(once, c.Prefix)
		cancel()
		if err == nil {
			f := follower{Config: c, tally: count(snap)}
			c.Listed(snap)
			err = f.watch(ctx)
			if f.moved {
				try = 0
			}
		}
		if ctx.Err() == nil && c.Broken != nil {
			c.Broken(err)
		}
	}
}

// follower is one watch.
type follower struct {
	Config
	tally tally
	moved bool // the watch worked
}

func (f *follower) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	changes := f.Store.Watch(ctx, f.Prefix, f.tally.rev)
	tallies := make(chan tally) // the probe takes from here what to compare with
	gap := make(chan struct{})
	var probes sync.WaitGroup
	probes.Go(func() { f.probe(ctx, tallies, gap) })
	defer func() {
		cancel()
		for range changes { // a watch must be drained to its end
		}
		probes.Wait()
	}()
	silence := time.NewTimer(3 * f.Probe)
	defer silence.Stop()
	for {
		select {
		case c, ok := <-changes:
			switch {
			case !ok:
				return errors.New("the watch ended without an error")
			case c.Err != nil:
				return c.Err
			}
			if c.Rev < f.tally.rev {
				continue // a member of the store that lags. If it is all there is, silence tells
			}
			f.moved = true
			silence.Reset(3 * f.Probe)
			f.tally.apply(c)
			f.Changed(c)
		case tallies <- f.tally:
		case <-gap:
			return ErrGap
		case <-silence.C:
			return ErrSilent
		case <-f.Relist:
			return ErrAsked
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// probe asks the watch for progress, and now and then the store for a digest as of a revision that the follower has
// reached. It closes gap if the two differ. An error of either request needs no report: silence tells.
func (f *follower) probe(ctx context.Context, tallies <-chan tally, gap chan<- struct{}) {
	untilDigest := f.Digest
	for Pause(ctx, jitter(f.Probe)) == nil {
		once, cancel := context.WithTimeout(ctx, f.Timeout)
		_ = f.Store.Progress(once)
		cancel()
		if untilDigest -= f.Probe; untilDigest > 0 {
			continue
		}
		untilDigest = f.Digest
		var seen tally
		select {
		case seen = <-tallies:
		case <-ctx.Done():
			return
		}
		once, cancel = context.WithTimeout(ctx, f.Timeout)
		d, err := f.Store.Digest(once, f.Prefix, seen.rev)
		cancel()
		if err == nil && !seen.agrees(d) {
			close(gap)
			return
		}
	}
}

// tally sums up what the follower has told, to be held against the store's digest.
type tally struct {
	rev, count, highest int64
}

func count(s cas.Snapshot) tally {
	t := tally{rev: s.Rev, count: int64(len(s.Entries))}
	for _, e := range s.Entries {
		t.highest = max(t.highest, e.Rev)
	}
	return t
}

func (t *tally) apply(c cas.Change) {
	t.rev = max(t.rev, c.Rev)
	for _, e := range c.Events {
		switch {
		case e.Deleted:
			t.count--
		case e.Rev == e.Created:
			t.count++
		}
		t.highest = max(t.highest, e.Rev)
	}
}

// agrees: as many keys, and none changed later than any change told. The highest may be lower than ours,
// because a deletion takes its key's along.
func (t *tally) agrees(d cas.Digest) bool { return d.Count == t.count && d.Highest <= t.highest }

func backoff(n int) time.Duration { return jitter(min(firstBackoff<<min(n, 10), mostBackoff)) }

// jitter is between half of d and one and a half, so that a thousand followers don't ask at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// Pause waits for d, or returns ctx's error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
