package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// failed decides what follows from Process's error about recs: nil to try again, with fewer records or after a while.
func (w *worker) failed(ctx context.Context, recs []*kgo.Record, err error) error {
	if bad, ok := errors.AsType[*BadRecordError](err); ok {
		for i, r := range recs {
			switch {
			case r.Offset != bad.Record.Offset:
			case i > 0:
				return w.batch(ctx, recs[:i]) // then it is the first
			default:
				return w.putAway(ctx, r, err, 1, false)
			}
		}
		return refused("process [%d, %d) of partition %d: it says that the record at %d is bad, which it wasn't given: %v",
			recs[0].Offset, Next(recs), w.shard, bad.Record.Offset, bad.Err)
	}
	if !mayRetry(w.tenure, err) {
		if w.tenure.Context().Err() == nil && !ofOwner(err) {
			// The next tenure is told whether this was applied. If it was not, it goes on splitting where this one stopped.
			w.trouble.failed(recs, w.consumer.config.Tries, time.Now())
			w.trouble.err = err
		}
		return &opError{fmt.Sprintf("process [%d, %d) of partition %d", recs[0].Offset, Next(recs), w.shard), err, cas.OutcomeOf(err)}
	}
	if w.trouble.failed(recs, w.consumer.config.Tries, time.Now()) {
		return w.giveUp(ctx, recs[0], err)
	}
	w.log.Debug("kafka: a batch failed", "offset", recs[0].Offset, "records", len(recs), "err", err)
	return w.pause(ctx, w.trouble.wait())
}

// giveUp puts a record away that has failed alone often enough, unless it looks as if everything would.
func (w *worker) giveUp(ctx context.Context, r *kgo.Record, err error) error {
	if !w.trouble.mayGiveUp(time.Now(), w.consumer.lastSuccess()) {
		return &standstill{&opError{fmt.Sprintf("record %d of partition %d has failed %d times, and nothing else has succeeded since, or %d before it were put away: "+
			"taken for a fault of what is written to", r.Offset, w.shard, w.trouble.tries, mostDead), err, cas.NotApplied}}
	}
	return w.putAway(ctx, r, err, w.trouble.tries, true)
}

// putAway produces r to the dead-letter topic and moves past it. counted is for reasons that, many times in a row, would have another
// cause than the records.
func (w *worker) putAway(ctx context.Context, r *kgo.Record, err error, tries int, counted bool) error {
	switch {
	case w.consumer.config.DeadLetter == "":
		return &standstill{err}
	case counted && w.trouble.dead >= mostDead:
		return &standstill{&opError{fmt.Sprintf("%d records in a row were put away", w.trouble.dead), err, cas.NotApplied}}
	}
	if err := w.consumer.deadLetter(w.ctx, w.tenure.Token(), r, err, tries); err != nil {
		if ctx.Err() != nil {
			return errEnding
		}
		return &standstill{err}
	}
	w.log.Warn("kafka: record put away", "offset", r.Offset, "tries", tries, "err", err)
	if hook := w.consumer.config.Hooks.Dead; hook != nil {
		hook(r, err)
	}
	if w.part.Advance != nil {
		if err := w.part.Advance(w.ctx, r.Offset+1); err != nil {
			// It will be put away once more: twice there is better than never.
			if mayRetry(w.tenure, err) {
				return &standstill{err}
			}
			return err
		}
	}
	if counted {
		w.trouble.gaveUp(r.Offset + 1)
	} else {
		w.trouble.succeeded(r.Offset + 1)
	}
	w.went(r)
	return nil
}

// stop says that the shard stands still.
func (w *worker) stop(err error) {
	if was := w.stopped.Swap(&err); was == nil || (*was).Error() != err.Error() {
		w.log.Error("kafka: the shard stands still, and is tried again now and then", "offset", w.pos, "err", err)
	}
	if hook := w.consumer.config.Hooks.Stopped; hook != nil {
		hook(w.shard, err)
	}
}

// pause waits, unless the tenure is ending or somebody seeks.
func (w *worker) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-w.tenure.Draining():
			return errEnding
		case <-ctx.Done():
			return errEnding
		case req := <-w.seek:
			if err := w.seekTo(req); err != nil {
				return err
			}
		}
	}
}

// seekTo carries Consumer.Seek out: errMoved if that succeeded.
func (w *worker) seekTo(req seek) error {
	if req.to < w.pos {
		req.reply <- refused("seek: shard %d has consumed up to %d, so it can't go back to %d: to apply records once more, "+
			"give the stream another name, and so positions of its own", w.shard, w.pos, req.to)
		return nil
	}
	if req.to == w.pos { // it is there: a fence would refuse to store it again
		err := w.goOn()
		req.reply <- nil
		return err
	}
	if w.part.Advance == nil {
		req.reply <- refused("seek: shard %d: Open returned no Advance, which would store the new position", w.shard)
		return nil
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	defer context.AfterFunc(req.ctx, cancel)()
	if err := w.reachable(ctx, req.to); err != nil {
		req.reply <- err
		return nil
	}
	if err := w.part.Advance(ctx, req.to); err != nil {
		req.reply <- err
		if mayRetry(w.tenure, err) {
			return nil
		}
		return err
	}
	w.log.Warn("kafka: an operator has moved the position", "from", w.pos, "to", req.to)
	*w.trouble = trouble{}
	w.moveTo(req.to, -1)
	w.goesOn()
	req.reply <- nil
	return errMoved
}

// goOn accepts, for an operator, that what a log that has lost its end gets anew up to the position is left out.
func (w *worker) goOn() error {
	e := w.trouble.cut
	if w.trouble.lost(w.pos) == nil {
		return nil
	}
	w.log.Warn("kafka: an operator leaves out what a log that lost its end gets anew", "from", e.End, "to", w.pos)
	*w.trouble = trouble{past: w.pos}
	w.moveTo(w.pos, -1) // whatever leader wrote the record before it
	w.goesOn()
	return errMoved
}

// reachable refuses a position past the log's end: it could not be taken back, and what comes up to it would be left out.
func (w *worker) reachable(ctx context.Context, to int64) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	p := int32(w.shard)
	end, err := offsets(ctx, w.consumer.client, w.consumer.topic, timeEnd, p)
	if err != nil {
		return &opError{"seek", err, cas.NotApplied}
	}
	if to > end[p] {
		return refused("seek: shard %d: the log ends at %d, so it can't go on at %d: want at most the end", w.shard, end[p], to)
	}
	return nil
}

// fault words an error of the fetches, and remembers that of a log that has lost its end.
func (w *worker) fault(ctx context.Context, err error) error {
	topic, p := w.consumer.topic, int32(w.shard)
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	loss, lost := errors.AsType[*kgo.ErrDataLoss](err)
	switch {
	case lost:
		e := &OffsetError{Topic: topic, Partition: w.shard, Position: w.pos, First: -1, End: loss.ResetTo}
		w.trouble.ends(e)
		return e
	case errors.Is(err, kerr.OffsetOutOfRange):
		e := &OffsetError{Topic: topic, Partition: w.shard, Position: w.pos, First: -1, End: -1}
		if at, err := offsets(ctx, w.consumer.client, topic, timeFirst, p); err == nil {
			e.First = at[p]
		}
		if at, err := offsets(ctx, w.consumer.client, topic, timeEnd, p); err == nil {
			e.End = at[p]
		}
		if again := w.consumer.recreated(ctx); again != nil {
			return again
		}
		w.trouble.ends(e)
		return e
	case errors.Is(err, kerr.UnknownTopicID):
		if again := w.consumer.recreated(ctx); again != nil {
			return again
		}
	}
	return &TopicError{topic, fmt.Sprintf("fetch partition %d at %d", w.shard, w.pos), err}
}

// recreated is a *RecreatedError if the topic has another id by now.
func (c *Consumer) recreated(ctx context.Context) error {
	now, err := lookup(ctx, c.client, c.topic)
	if err != nil || now.id == c.id {
		return nil
	}
	return &RecreatedError{Topic: c.topic, Was: c.id.String(), Now: now.id.String()}
}
