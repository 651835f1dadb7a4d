package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
)

// Where registers lie in etcd.
const (
	registerPrefix = "/chaos/register/" // then shard and name
	acceptedPrefix = "/chaos/accepted/" // then shard and operation; the revision orders them
)

// storeRegisters are registers in etcd, next to the claims: a tenure's guard is the whole fence.
type storeRegisters struct {
	store  cas.Store
	fenced bool
}

func shardPrefix(prefix string, shard int) string { return fmt.Sprintf("%s%05d/", prefix, shard) }

// load needs no seal: since the claim was granted, no commit under an older one can be applied.
func (s *storeRegisters) load(ctx context.Context, t *owner.Tenure) (map[string]int64, error) {
	prefix := shardPrefix(registerPrefix, t.Token().Shard)
	snap, err := s.store.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	values := make(map[string]int64, len(snap.Entries))
	for _, e := range snap.Entries {
		f, err := finalOf(e)
		if err != nil {
			return nil, err
		}
		values[f.Key] = f.Value
	}
	return values, nil
}

func finalOf(e cas.Entry) (final, error) {
	v, err := strconv.ParseInt(string(e.Value), 10, 64)
	if err != nil {
		return final{}, fmt.Errorf("register %q: %w", e.Key, err)
	}
	return final{Key: e.Key[strings.LastIndexByte(e.Key, '/')+1:], Value: v}, nil
}

func (s *storeRegisters) write(ctx context.Context, t *owner.Tenure, r row) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = s.store.Commit(ctx, cas.Txn{If: s.guard(t), Then: []cas.Op{
		cas.Put(shardPrefix(registerPrefix, r.Shard)+r.Key, strconv.AppendInt(nil, r.Value, 10)),
		cas.Put(shardPrefix(acceptedPrefix, r.Shard)+r.ID, text),
	}})
	return err
}

func (s *storeRegisters) confirm(ctx context.Context, t *owner.Tenure) error {
	_, err := s.store.Commit(ctx, cas.Txn{If: s.guard(t)})
	return err
}

func (s *storeRegisters) guard(t *owner.Tenure) []cas.Cond {
	if !s.fenced {
		return nil
	}
	return []cas.Cond{t.Guard()}
}

func (s *storeRegisters) stale(err error) bool {
	_, conflict := errors.AsType[*cas.ConflictError](err)
	return conflict
}

// acceptedIn is all that etcd has accepted, in the order of shards and commits, and its registers.
func acceptedIn(ctx context.Context, s cas.Store) ([]row, []final, error) {
	snap, err := s.List(ctx, acceptedPrefix)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]row, 0, len(snap.Entries))
	for _, e := range snap.Entries {
		var r row
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return nil, nil, fmt.Errorf("%q: %w", e.Key, err)
		}
		r.N, r.Twice = e.Rev, e.Created != e.Rev
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(a.Shard-b.Shard, cmp.Compare(a.N, b.N)) })
	if snap, err = s.List(ctx, registerPrefix); err != nil {
		return nil, nil, err
	}
	var finals []final
	for _, e := range snap.Entries {
		f, err := finalOf(e)
		if err != nil {
			return nil, nil, err
		}
		finals = append(finals, f)
	}
	return rows, finals, nil
}
