package kafka

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Headers of a record in the dead-letter topic, after those that it had. Topic, partition and offset together name it: the same
// record may be put away twice, by a crash before the position was stored or by an owner that has been replaced.
const (
	DeadTopic     = "tenure-dead-topic"
	DeadPartition = "tenure-dead-partition"
	DeadOffset    = "tenure-dead-offset"
	DeadError     = "tenure-dead-error" // at most 4 KiB of it; of Bad, what it was given
	DeadTries     = "tenure-dead-tries" // 0: not of the shard, so not tried
	DeadEpoch     = "tenure-dead-epoch" // of the owner, in decimal
	DeadTime      = "tenure-dead-time"  // the record's own timestamp, in milliseconds
)

const maxDeadError = 4 << 10

// deadLetter produces r to the dead-letter topic, and returns once the brokers have it.
func (c *Consumer) deadLetter(ctx context.Context, tok shard.Token, r *kgo.Record, why error, tries int) error {
	text := reason(why)
	dead := &kgo.Record{
		Topic: c.config.DeadLetter, Key: r.Key, Value: r.Value,
		Headers: append(slices.Clip(r.Headers),
			kgo.RecordHeader{Key: DeadTopic, Value: []byte(r.Topic)},
			header(DeadPartition, int64(r.Partition)),
			header(DeadOffset, r.Offset),
			kgo.RecordHeader{Key: DeadError, Value: []byte(text)},
			header(DeadTries, int64(tries)),
			kgo.RecordHeader{Key: DeadEpoch, Value: []byte(tok.Epoch.Decimal())},
			header(DeadTime, r.Timestamp.UnixMilli())),
	}
	if err := produce(ctx, c.client, dead); err != nil {
		return &TopicError{c.config.DeadLetter, putAway, err}
	}
	return nil
}

// reason words why for DeadError. Where the record is other headers say, so of Bad only the cause is left.
func reason(why error) string {
	if bad, ok := errors.AsType[*BadRecordError](why); ok && bad.Err != nil {
		why = bad.Err
	}
	text := why.Error()
	return text[:min(len(text), maxDeadError)]
}

func header(key string, v int64) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: strconv.AppendInt(nil, v, 10)}
}

// produce returns once all records have been acknowledged, or one has failed, or ctx ends, in which case they may yet be written:
// an idempotent producer can't take back what it has sent. The records are the client's until then, and in the last case for good.
func produce(ctx context.Context, cl *kgo.Client, recs ...*kgo.Record) error {
	failed := make(chan error, len(recs))
	for _, r := range recs {
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) { failed <- err })
	}
	for range recs {
		select {
		case err := <-failed:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return &opError{"produce", context.Cause(ctx), cas.Uncertain}
		}
	}
	return nil
}
