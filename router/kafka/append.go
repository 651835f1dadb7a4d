package kafka

import (
	"context"
	"errors"
	"strings"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Append writes one batch and the input position reached by it, all or nothing for every reader that goes by Filter; next -1 leaves the position
// as it is, for changes that come from requests. Without records it stores the position alone. nil means that the batch is in
// the log, whole, and before the marker of any newer owner: it counts.
//
// On error change no state: return it, and the next tenure restores. *fence.FencedError: not applied, a newer owner's marker came first.
// ErrRestore: not applied. Otherwise the outcome is open, and this tenure can append no more.
//
// The records are the changelog's until Append returns nil, and for good if it fails; it sets their topic and partition and adds headers.
// They must not have headers that begin with "tenure-". Calls of one tenure take turns.
func (l *Changelog) Append(ctx context.Context, tok shard.Token, next int64, recs ...*kgo.Record) error {
	for _, r := range recs {
		for _, h := range r.Headers {
			if strings.HasPrefix(h.Key, "tenure-") {
				return refused("changelog: a record has the header %q: those that begin with tenure- are the changelog's", h.Key)
			}
		}
	}
	s, err := l.take(ctx, tok)
	if err != nil {
		return err
	}
	defer s.give()
	if next >= 0 && next < s.next {
		return refused("changelog: shard %d: append with the input position %d: %d was reached before", tok.Shard, next, s.next)
	}
	s.batch++
	last, err := l.write(ctx, frame{epoch: tok.Epoch, groupID: tok.GroupID, batch: s.batch, next: next}, tok.Shard, s.end, recs)
	if err != nil {
		s.failed = err
		return err
	}
	s.end = last + 1
	s.next = max(s.next, next)
	return nil
}

// write appends records as one batch, and returns the offset of its last record, once it is certain that no newer owner's comes
// before that. Usually the offsets say so: they follow expect without a gap.
func (l *Changelog) write(ctx context.Context, f frame, s int, expect int64, recs []*kgo.Record) (int64, error) {
	f.count = len(recs)
	if len(recs) == 0 {
		recs = []*kgo.Record{{}}
	}
	for i, r := range recs {
		f.index, f.last = i+1, i == len(recs)-1
		r.Topic, r.Partition = l.topic, int32(s)
		r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], f.headers()...)
	}
	if err := produce(ctx, l.client, recs...); err != nil {
		return 0, &opError{"changelog: append", &TopicError{l.topic, "produce", err}, cas.Uncertain}
	}
	alone := true
	for i, r := range recs {
		alone = alone && r.Offset == expect+int64(i)
	}
	last := recs[len(recs)-1].Offset
	if alone || f.batch == 0 {
		return last, nil
	}
	return last, l.confirm(ctx, f, s, expect, last)
}

// confirm looks whether a newer owner has come between: somebody else's records are among those of the batch.
func (l *Changelog) confirm(ctx context.Context, f frame, s int, from, last int64) error {
	newest := f.epoch
	look := func(r *kgo.Record) error {
		other, ok, err := readFrame(r)
		if err == nil && ok && other.groupID == f.groupID {
			newest = max(newest, other.epoch)
		}
		return nil // what can't be read, the next Restore complains about
	}
	err := l.each(ctx, s, from, last, look)
	for gone, ok := errors.AsType[*OffsetError](err); ok && gone.First > from; gone, ok = errors.AsType[*OffsetError](err) {
		// Who has deleted this has left its own last record: if that is among those of the batch, it will do.
		from = gone.First
		err = l.each(ctx, s, from, last, look)
	}
	switch {
	case newest > f.epoch:
		return &fence.FencedError{Mine: f.epoch, Current: newest}
	case from > last:
		return &opError{"changelog: an append was deleted before it could be read back", ErrRestore, cas.Uncertain}
	case err != nil:
		return &opError{"changelog: read an append back", err, cas.Uncertain}
	}
	return nil
}
