package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/shard"
)

// witness is the parent's part: it submits payments, kills nodes, and sees where that left the payment they were at.
type witness struct {
	out     io.Writer
	began   time.Time
	role    role // of the next node, but for its name
	fleet   *child.Fleet[report]
	books   *books
	engine  *idem.Engine
	third   *provider.Provider
	charges <-chan report // the provider's
	aim     aim
	started int
}

func (w *witness) say(format string, args ...any) {
	fmt.Fprintf(w.out, "%5.1fs  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

func (w *witness) start() error {
	w.started++
	r := w.role
	r.Node = fmt.Sprint("node-", w.started)
	return w.fleet.Start(r.Node, r)
}

// run submits the payments in lots, so that they last as long as the kills: at least that many, and some more if a phase has
// had none. It returns when the queue is empty.
func (w *witness) run(ctx context.Context, payments []Payment, kills int) error {
	lots := kills + kills/2 + 2 // the last two in peace
	for i := range lots {
		lot := payments[i*len(payments)/lots : (i+1)*len(payments)/lots]
		if err := w.books.submit(ctx, w.role.Group, lot); err != nil {
			return err
		}
		if i >= lots-2 || len(lot) == 0 || i >= kills && !w.aim.open() {
			continue
		}
		if err := w.kill(ctx, len(lot)); err != nil {
			return err
		}
		if err := w.start(); err != nil {
			return err
		}
		// Not in a row: some kills find the last victim's shards taken over, and others not yet.
		if _, err := w.hear(ctx, time.Duration(w.aim.rng.Int64N(int64(time.Second))), nil); err != nil {
			return err
		}
	}
	for {
		left, err := w.books.left(ctx)
		if err != nil || left == 0 {
			return err
		}
		if _, err := w.hear(ctx, 50*time.Millisecond, nil); err != nil {
			return fmt.Errorf("%d payments are still in the queue: %w", left, err)
		}
	}
}

// kill kills a node in the phase that has had the fewest kills, at one of the next payments that get there.
func (w *witness) kill(ctx context.Context, lot int) error {
	wanted := w.aim.next()
	skip := w.aim.rng.IntN(max(1, lot/3))
	heard, err := w.hear(ctx, 0, func(r report) bool {
		if r.At == wanted.begins() {
			skip--
		}
		return skip < 0
	})
	if err != nil {
		return fmt.Errorf("waiting for a payment in the phase %q: %w", wanted, err)
	}
	pause(ctx, time.Duration(w.aim.rng.Int64N(max(1, int64(w.role.Linger/2)))))
	w.fleet.Kill(heard.Node)
	p, ok, err := w.landed(ctx, heard.Payment)
	switch {
	case err != nil:
		return err
	case !ok:
		w.aim.missed++
		w.say("%s was killed when %s was through", heard.Node, heard.Payment)
	default:
		w.aim.landed[p]++
		w.say("%s was killed at %s: %s", heard.Node, heard.Payment, p)
	}
	return nil
}

// inherited is how soon after a kill somebody else may own the shard, if the dead node had renewed its lease in time. (Had it
// not, a payment may be counted in a later phase than the kill has hit. No more depends on it.)
const inherited = ttl / 2

// landed finds out where the kill has left a payment. ok is false if it was through, or if that took so long that another owner
// may have gone on with it.
func (w *witness) landed(ctx context.Context, payment string) (_ phase, ok bool, err error) {
	died := time.Now()
	var s state
	taken := w.third.Charges(payment)
	s.charged = len(taken) > 0
	if s.queued, s.booked, err = w.books.look(ctx, payment); err != nil {
		return 0, false, err
	}
	if s.charged && s.booked {
		if s.recorded, err = w.recorded(ctx, taken[0].Payment); err != nil {
			return 0, false, err
		}
	}
	p, ok := s.phase()
	return p, ok && time.Since(died) < inherited, nil
}

// recorded reports whether the payment's operation has finished.
func (w *witness) recorded(ctx context.Context, p Payment) (bool, error) {
	found, err := idem.Lookup[Receipt](ctx, w.engine, request(shard.Token{}, p))
	return found.Status == idem.Done, err
}

// hear takes what is reported: for so long (0: until ctx ends), or until one is wanted, which it returns.
func (w *witness) hear(ctx context.Context, d time.Duration, wanted func(report) bool) (report, error) {
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, errHeard)
		defer cancel()
	}
	for {
		var r report
		select {
		case r = <-w.fleet.Reports():
		case r = <-w.charges:
		case err := <-w.fleet.Failed():
			return report{}, err
		case <-ctx.Done():
			if err := context.Cause(ctx); err != errHeard {
				return report{}, err
			}
			return report{}, nil
		}
		if wanted != nil && wanted(r) {
			return r, nil
		}
	}
}

var errHeard = errors.New("heard for long enough")
