package kafka

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
)

// sums keeps accounts in memory, and in a changelog.
type sums struct{ log *kafka.Changelog }

func restoreSum(accounts map[string]account, r *kgo.Record) error {
	var a account
	if err := json.Unmarshal(r.Value, &a); err != nil {
		return err
	}
	accounts[string(r.Key)] = a
	return nil
}

func (s *sums) open(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
	accounts := make(map[string]account)
	from, err := s.log.Restore(ctx, t.Token(), func(r *kgo.Record) error { return restoreSum(accounts, r) })
	return s.partition(t, accounts, from), err
}

// prepare reads ahead while the shard's owner still serves.
func (s *sums) prepare(c *kafka.Consumer) func(context.Context, int) (owner.Handler, error) {
	return func(ctx context.Context, shard int) (owner.Handler, error) {
		accounts := make(map[string]account)
		f, err := s.log.Follow(ctx, shard, nil, func(r *kgo.Record) error { return restoreSum(accounts, r) })
		return c.Handler(func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
			from, err := f.Restore(ctx, t.Token())
			return s.partition(t, accounts, from), err
		}), err
	}
}

func (s *sums) partition(t *owner.Tenure, accounts map[string]account, from int64) kafka.Partition {
	return kafka.Partition{
		From: from,
		Process: func(ctx context.Context, recs []*kgo.Record) error {
			changed := make(map[string]account)
			for _, r := range recs {
				e, err := parseEntry(r.Value)
				if err != nil {
					return kafka.Bad(r, err)
				}
				key := string(r.Key)
				a, ok := changed[key]
				if !ok {
					a = accounts[key]
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
			if err := s.log.Append(ctx, t.Token(), kafka.Next(recs), out...); err != nil {
				return err
			}
			maps.Copy(accounts, changed)
			return nil
		},
		Advance: func(ctx context.Context, next int64) error { return s.log.Append(ctx, t.Token(), next) },
	}
}
