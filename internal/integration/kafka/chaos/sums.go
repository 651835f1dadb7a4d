package main

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
)

// sums keeps accounts in memory and in a changelog, with a checkpoint now and then.
type sums struct{ log *kafka.Changelog }

// book is a shard's accounts.
type book map[string]account

func (b book) load(state []byte) error { return json.Unmarshal(state, &b) }

func (b book) apply(r *kgo.Record) error {
	var a account
	err := json.Unmarshal(r.Value, &a)
	b[string(r.Key)] = a
	return err
}

func (s *sums) open(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
	b := make(book)
	from, err := s.log.RestoreFrom(ctx, t.Token(), b.load, b.apply)
	return s.partition(t, b, from), err
}

// prepare reads ahead while the shard's owner still serves.
func (s *sums) prepare(c *kafka.Consumer) func(context.Context, int) (owner.Handler, error) {
	return func(ctx context.Context, shard int) (owner.Handler, error) {
		b := make(book)
		f, err := s.log.Follow(ctx, shard, b.load, b.apply)
		return c.Handler(func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
			from, err := f.Restore(ctx, t.Token())
			return s.partition(t, b, from), err
		}), err
	}
}

// checkpointEvery so many batches.
const checkpointEvery = 100

func (s *sums) partition(t *owner.Tenure, b book, from int64) kafka.Partition {
	batches := 0
	return kafka.Partition{
		From: from,
		Process: func(ctx context.Context, recs []*kgo.Record) error {
			time.Sleep(think)
			changed := make(book)
			for _, r := range recs {
				e, err := parseEntry(r.Value)
				if err != nil {
					return kafka.Bad(r, err)
				}
				key := string(r.Key)
				a, ok := changed[key]
				if !ok {
					a = b[key]
				}
				changed[key] = a.add(e)
			}
			var out []*kgo.Record
			for key, a := range changed {
				value, err := json.Marshal(a)
				if err != nil {
					return err
				}
				out = append(out, &kgo.Record{Key: []byte(key), Value: value})
			}
			if err := told(s.log.Append(context.WithoutCancel(ctx), t.Token(), kafka.Next(recs), out...)); err != nil {
				return err
			}
			maps.Copy(b, changed)
			if batches++; batches%checkpointEvery != 0 {
				return nil
			}
			state, err := json.Marshal(b)
			if err == nil {
				err = s.log.Checkpoint(ctx, t.Token(), state)
			}
			return err
		},
	}
}
