package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/twmb/franz-go/pkg/kgo"
)

// worker consumes one shard during one tenure, in the handler's goroutine.
type worker struct {
	consumer *Consumer
	tenure   *owner.Tenure
	shard    int
	part     Partition
	trouble  *trouble
	ctx      context.Context // Process's: outlives the beginning of a hand-off
	seek     chan seek
	log      *slog.Logger

	pos   int64 // of the next record; -1: not known yet
	epoch int32 // leader epoch of the record before pos, -1 if not known

	// For others to read.
	at      atomic.Int64 // pos
	feed    atomic.Pointer[feed]
	stopped atomic.Pointer[error]
}

// seek asks a worker to go on elsewhere.
type seek struct {
	ctx   context.Context
	to    int64
	reply chan error
}

// errMoved: consume is to begin anew at another position.
var errMoved = errors.New("kafka: moved")

// standstill is an error that the tenure outlives: the shard is tried again later.
type standstill struct{ err error }

func (e *standstill) Error() string { return e.err.Error() }

// run consumes until the tenure ends. The error it returns ends it.
func (w *worker) run(ctx context.Context) error {
	for n := 1; ; n++ {
		before := w.pos
		err := w.consume(ctx)
		stop, ok := err.(*standstill)
		switch {
		case err == errMoved:
			n = 0
			continue
		case err == errEnding:
			return nil
		case !ok:
			return err
		}
		if w.pos != before {
			n = 1
		}
		w.stop(stop.err)
		switch err := w.pause(ctx, backoff(n)); err {
		case nil:
		case errMoved:
			n = 0
		case errEnding:
			return nil
		default:
			return err // of Advance, for Seek
		}
	}
}

// consume adds the partition at pos and processes what comes, until the tenure is ending or something is wrong.
func (w *worker) consume(ctx context.Context) error {
	if w.pos < 0 {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	if err := w.trouble.lost(w.pos); err != nil {
		return &standstill{err}
	}
	f := newFeed(int32(w.shard), w.pos, w.epoch, w.consumer.config.Buffer)
	w.feed.Store(f)
	w.consumer.stream.add(f)
	defer w.consumer.stream.remove(f)
	for {
		if err := w.await(ctx, f); err != nil {
			return err
		}
		recs, err := f.peek(w.trouble.limit(w.pos, w.consumer.config.MaxBatch))
		switch {
		case err != nil:
			return &standstill{w.fault(ctx, err)}
		case len(recs) == 0:
			continue
		}
		if err := w.batch(ctx, recs); err != nil {
			return err
		}
		if f.done(w.pos) {
			w.consumer.stream.nudge()
		}
	}
}

var errEnding = errors.New("kafka: the tenure is ending")

// begin finds where a shard starts that has no position, and has that stored if it can be: else the latest would be another one
// for the next owner.
func (w *worker) begin(ctx context.Context) error {
	from, err := w.consumer.config.Start.resolve(ctx, w.consumer.client, w.consumer.topic, int32(w.shard))
	if err == nil && w.part.Advance != nil {
		err = w.part.Advance(w.ctx, from)
		if err != nil && !mayRetry(w.tenure, err) {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return errEnding
	case err != nil:
		return &standstill{err}
	}
	w.moveTo(from, -1)
	return nil
}

func (w *worker) moveTo(pos int64, epoch int32) {
	w.pos, w.epoch = pos, epoch
	w.at.Store(pos)
	if w.consumer.lags != nil {
		w.consumer.lags.reached(w.shard, pos)
	}
}

// await waits until there is something to process, and a batch is as full as MaxDelay lets it be.
func (w *worker) await(ctx context.Context, f *feed) error {
	var full <-chan time.Time
	for {
		select { // a hand-off comes first: it waits for what is begun now
		case <-w.tenure.Draining():
			return errEnding
		case req := <-w.seek:
			if err := w.seekTo(req); err != nil {
				return err
			}
		default:
		}
		n, failed := f.len()
		if failed || n > 0 && (w.consumer.config.MaxDelay == 0 || n >= w.trouble.limit(w.pos, w.consumer.config.MaxBatch)) {
			return w.standing(ctx)
		}
		if n > 0 && full == nil {
			timer := time.NewTimer(w.consumer.config.MaxDelay)
			defer timer.Stop()
			full = timer.C
		}
		select {
		case <-f.ready:
		case <-full:
			return w.standing(ctx)
		case <-w.tenure.Draining():
		case <-ctx.Done():
			return errEnding
		case req := <-w.seek:
			if err := w.seekTo(req); err != nil {
				return err
			}
		}
	}
}

// standing holds a batch back while the tenure can't be trusted: a process that was stopped finds out here by the clock,
// whether or not its node's loop has run again. What slips through the fence refuses.
func (w *worker) standing(ctx context.Context) error {
	for w.tenure.Err() != nil {
		select {
		case <-ctx.Done():
			return errEnding
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// batch processes records, from the first on, as many as it can.
func (w *worker) batch(ctx context.Context, recs []*kgo.Record) error {
	if !w.consumer.config.AnyKey {
		for i, r := range recs {
			of := w.consumer.group.Of(string(r.Key))
			if r.Key != nil && of == w.shard {
				continue
			}
			if i == 0 {
				return w.putAway(ctx, r, &BadRecordError{r, misplaced(r, of)}, 0, true)
			}
			recs = recs[:i] // first what is before it
			break
		}
	}
	if err := w.trouble.verdict(w.pos, w.consumer.config.Tries); err != nil && w.trouble.mayGiveUp(time.Now(), w.consumer.lastSuccess()) {
		return w.putAway(ctx, recs[0], err, w.trouble.tries, true)
	}
	began := time.Now()
	err := w.process(recs)
	if hook := w.consumer.config.Hooks.Batch; hook != nil {
		hook(w.shard, len(recs), time.Since(began), err)
	}
	if err == nil {
		w.consumer.good()
		w.trouble.succeeded(Next(recs))
		w.went(recs[len(recs)-1])
		return nil
	}
	return w.failed(ctx, recs, err)
}

// process calls the user's Process. A panic, or runtime.Goexit, is an error that leaves the outcome open.
func (w *worker) process(recs []*kgo.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return w.part.Process(w.ctx, slices.Clone(recs)) // its own: it may put them in another order
}

// went moves past r, which is done with.
func (w *worker) went(r *kgo.Record) {
	w.moveTo(r.Offset+1, r.LeaderEpoch)
	w.goesOn()
}

// goesOn says that the shard stands still no more, if it did.
func (w *worker) goesOn() {
	if w.stopped.Load() != nil {
		w.stopped.Store(nil)
		w.log.Info("kafka: the shard goes on", "offset", w.pos)
		if hook := w.consumer.config.Hooks.Stopped; hook != nil {
			hook(w.shard, nil)
		}
	}
}

func (w *worker) lag() int64 {
	f := w.feed.Load()
	if f == nil {
		return 0
	}
	return f.lag(w.at.Load())
}
