package kafka

import (
	"context"
	"errors"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Follower has read a shard's changelog up to some point, while its owner may still append. Follow makes one. Not safe for
// concurrent use. There is nothing to close.
type Follower struct {
	log    *Changelog
	shard  int
	load   func(state []byte) error
	apply  func(*kgo.Record) error
	filter Filter
	pos    int64 // of the next record to read
	broken error // apply has failed, so state is in doubt
}

// Restore writes tok's marker, replays up to it what rightful owners wrote in whole batches, and returns the input position stored last, or -1.
// *fence.FencedError: a newer owner was there before. A log that ends below the newest checkpoint, or has grown past it unseen, has lost records
// and is refused. apply's error ends it, and state is then in doubt. One that has succeeded is
// the tenure's last: another is refused. Use RestoreFrom where there are
// Checkpoints.
func (l *Changelog) Restore(ctx context.Context, tok shard.Token, apply func(*kgo.Record) error) (int64, error) {
	return l.RestoreFrom(ctx, tok, nil, apply)
}

// RestoreFrom is Restore that begins with the newest checkpoint: load is called with it first, if there is one. It is called once more, in place
// of all that was applied, if the log was trimmed past the reader meanwhile.
func (l *Changelog) RestoreFrom(ctx context.Context, tok shard.Token, load func(state []byte) error, apply func(*kgo.Record) error) (int64, error) {
	f, err := l.begins(ctx, tok.Shard, load, apply)
	if err != nil {
		return -1, err
	}
	return f.Restore(ctx, tok)
}

// Follow reads a shard's changelog up to its present end without taking part in it: for owner.Config.Prepare, so that little is left for the
// Restore after the hand-off. load may be nil if there are no Checkpoints.
func (l *Changelog) Follow(ctx context.Context, s int, load func(state []byte) error, apply func(*kgo.Record) error) (*Follower, error) {
	f, err := l.begins(ctx, s, load, apply)
	if err == nil {
		err = f.CatchUp(ctx)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// begins makes a follower that stands where the newest checkpoint ends, or at the log's start.
func (l *Changelog) begins(ctx context.Context, s int, load func(state []byte) error, apply func(*kgo.Record) error) (*Follower, error) {
	if s < 0 || s >= l.group.Shards || apply == nil {
		return nil, refused("changelog: restore shard %d: want one of 0 to %d, and an apply", s, l.group.Shards-1)
	}
	if l.config.Checkpoints != nil && load == nil {
		return nil, refused("changelog: there are Checkpoints, so restore by RestoreFrom or Follow with a load")
	}
	f := &Follower{log: l, shard: s, load: load, apply: apply}
	if err := f.skip(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// skip goes on from the newest checkpoint, if it is ahead.
func (f *Follower) skip(ctx context.Context) error {
	l := f.log
	if l.config.Checkpoints == nil {
		return nil
	}
	c, err := l.config.Checkpoints.Load(ctx, l.group.Name, f.shard)
	switch {
	case errors.Is(err, ErrNoCheckpoint):
		return nil
	case err != nil:
		return &opError{"changelog: load a checkpoint", err, cas.NotApplied}
	case c.Topic != l.topic || c.TopicID != l.id.String():
		return refused("changelog: the checkpoint of shard %d is of topic %s with id %s, this is %s with id %s: delete the one or the other",
			f.shard, c.Topic, c.TopicID, l.topic, l.id)
	case f.filter.groupID != "" && c.GroupID != f.filter.groupID:
		return &LogGroupError{Topic: l.topic, Partition: f.shard, Offset: c.Offset, Mine: f.filter.groupID, Theirs: c.GroupID}
	case c.Offset <= f.pos:
		return nil
	}
	if err := f.load(c.State); err != nil {
		f.broken = &opError{"changelog: load", err, cas.NotApplied}
		return f.broken
	}
	f.pos, f.filter = c.Offset, Filter{Epoch: c.Epoch, groupID: c.GroupID, next: c.Next + 1, resume: c.Offset}
	return nil
}

// CatchUp reads on to the log's present end.
func (f *Follower) CatchUp(ctx context.Context) error {
	end, err := offsets(ctx, f.log.client, f.log.topic, timeEnd, int32(f.shard))
	if err != nil {
		return err
	}
	return f.read(ctx, end[int32(f.shard)]-1)
}

// Restore takes over from the shard's owner: see Changelog.Restore.
func (f *Follower) Restore(ctx context.Context, tok shard.Token) (int64, error) {
	switch {
	case tok.IsZero() || tok.Epoch <= 0 || tok.GroupID == "" || tok.Group != f.log.group.Name || tok.Shard != f.shard:
		return -1, refused("changelog: restore shard %d of group %q with token %s: take it from the tenure", f.shard, f.log.group.Name, tok)
	case f.broken != nil:
		return -1, f.broken
	case f.filter.groupID == "":
		f.filter.groupID = tok.GroupID
	case f.filter.groupID != tok.GroupID:
		return -1, &LogGroupError{Topic: f.log.topic, Partition: f.shard, Offset: f.pos, Mine: tok.GroupID, Theirs: f.filter.groupID}
	}
	if err := f.log.unrestored(tok); err != nil {
		return -1, err
	}
	if err := f.whole(ctx); err != nil {
		return -1, err
	}
	marker, err := f.log.write(ctx, frame{epoch: tok.Epoch, groupID: tok.GroupID, next: -1}, f.shard, -1, nil)
	if err != nil {
		return -1, err
	}
	if f.pos > marker {
		return -1, f.short(marker)
	}
	if err := f.read(ctx, marker); err != nil {
		return -1, err
	}
	if f.filter.Epoch > tok.Epoch {
		return -1, &fence.FencedError{Mine: tok.Epoch, Current: f.filter.Epoch}
	}
	return f.filter.Next(), f.log.begin(tok, marker+1, f.filter.Next())
}

// whole refuses a log that ends below where this reader stands. It is asked before the marker is written: a few tries with a marker each, and the
// log would have grown past the reader.
func (f *Follower) whole(ctx context.Context) error {
	if f.pos == 0 {
		return nil
	}
	end, err := offsets(ctx, f.log.client, f.log.topic, timeEnd, int32(f.shard))
	if err == nil && end[int32(f.shard)] < f.pos {
		err = f.short(end[int32(f.shard)])
	}
	return err
}

func (f *Follower) short(end int64) error {
	return refused("changelog: restore shard %d: %s/%d ends at %d, and the newest checkpoint, or what was read before, at %d: the log has lost its end, "+
		"and what is appended up to there would be left out. Bring the log back; or delete the topic with its checkpoints and build the state anew; or, "+
		"if the log was never trimmed, delete the checkpoint: then the state is what the log still has", f.shard, f.log.topic, f.shard, end, f.pos)
}

// read applies what counts, up to and with the record at last. What the owner has trimmed meanwhile, its newest checkpoint holds.
func (f *Follower) read(ctx context.Context, last int64) error {
	for {
		err := f.log.each(ctx, f.shard, f.pos, last, f.push)
		if _, gone := errors.AsType[*OffsetError](err); !gone {
			return err
		}
		before := f.pos
		if err := f.skip(ctx); err != nil {
			return err
		}
		if f.pos == before {
			return &opError{"changelog: records are gone that no checkpoint holds", err, cas.NotApplied}
		}
	}
}

func (f *Follower) push(r *kgo.Record) error {
	w, ok, err := f.filter.Push(r)
	if err != nil {
		return err
	}
	f.pos = r.Offset + 1
	if !ok {
		return nil
	}
	for _, r := range w.Records {
		if err := f.apply(r); err != nil {
			f.broken = &opError{"changelog: apply", err, cas.NotApplied}
			return f.broken
		}
	}
	return nil
}
