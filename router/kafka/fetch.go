package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Changelog reads a known stretch of the log, now and then. It asks the partition's leader itself: a consumer's client would add the
// partition, wait for the fetch under way, and read on past the end.

const (
	fetchBytes  = 4 << 20
	refetchWait = 20 * time.Millisecond // before asking again, doubled up to a second
)

// each calls fn with the records from one offset to another, both included.
func (l *Changelog) each(ctx context.Context, s int, from, last int64, fn func(*kgo.Record) error) error {
	for from <= last {
		recs, next, err := l.fetch(ctx, int32(s), from)
		if err != nil {
			return err
		}
		for _, r := range recs {
			if r.Offset > last {
				return nil
			}
			if err := fn(r); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}

// fetch returns at least one record, or an offset to go on from behind those that aren't for readers. It tries until ctx ends.
func (l *Changelog) fetch(ctx context.Context, p int32, from int64) ([]*kgo.Record, int64, error) {
	wait := refetchWait
	for {
		recs, next, err := l.tryFetch(ctx, p, from)
		switch {
		case err == nil && (len(recs) > 0 || next > from):
			return recs, next, nil
		case errors.Is(err, kerr.OffsetOutOfRange):
			return nil, 0, l.outOfRange(ctx, p, from)
		case err != nil && ctx.Err() == nil && !again(err):
			return nil, 0, &TopicError{l.topic, "read the changelog", err}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			if err == nil {
				err = context.Cause(ctx)
			}
			return nil, 0, &TopicError{l.topic, "read the changelog until " + context.Cause(ctx).Error(), err}
		case <-timer.C:
		}
		wait = min(2*wait, time.Second)
		if err != nil {
			if facts, lerr := lookup(ctx, l.client, l.topic); lerr == nil {
				l.note(facts)
			}
		}
	}
}

// again: the error may pass. Errors that aren't Kafka's are of the connection.
func again(err error) bool {
	_, kafkas := errors.AsType[*kerr.Error](err)
	return !kafkas || kerr.IsRetriable(err)
}

func (l *Changelog) outOfRange(ctx context.Context, p int32, from int64) error {
	e := &OffsetError{Topic: l.topic, Partition: int(p), Position: from, First: -1, End: -1}
	if at, err := offsets(ctx, l.client, l.topic, timeFirst, p); err == nil {
		e.First = at[p]
	}
	if at, err := offsets(ctx, l.client, l.topic, timeEnd, p); err == nil {
		e.End = at[p]
	}
	return e
}

// note remembers who leads the partitions.
func (l *Changelog) note(facts topicFacts) {
	for p := range min(len(facts.leaders), len(l.leaders)) {
		l.leaders[p].Store(facts.leaders[p])
	}
}

func (l *Changelog) tryFetch(ctx context.Context, p int32, from int64) ([]*kgo.Record, int64, error) {
	leader := l.leaders[p].Load()
	if leader < 0 {
		return nil, 0, kerr.LeaderNotAvailable
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = 100
	req.MinBytes = 1
	req.MaxBytes = fetchBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = l.topic, l.id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, from, fetchBytes
	t.Partitions = append(t.Partitions, rp)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.client.Broker(int(leader)))
	if err != nil {
		return nil, 0, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, 0, err
	}
	for _, rt := range resp.Topics {
		for i := range rt.Partitions {
			got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: from, Topic: l.topic, Partition: p}, &rt.Partitions[i], l.unpack, nil)
			return got.Records, next, got.Err
		}
	}
	return nil, 0, kerr.UnknownTopicOrPartition
}
