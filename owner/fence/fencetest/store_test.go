package fencetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/shard"
)

// storeFence is the fence that the store itself is: a condition on the revision of the record that says who
// owns the shard, as Tenure.Guard is one on the claim's.
type storeFence struct {
	store cas.KV
	mu    sync.Mutex // guards guards
	guard map[shard.Token]cas.Cond
}

func recordKey(tok shard.Token) string { return fmt.Sprintf("/owners/%s/%d", tok.Group, tok.Shard) }

func (f *storeFence) known(ctx context.Context, tok shard.Token) (fence.State, cas.Entry, error) {
	entry, err := f.store.Get(ctx, recordKey(tok))
	if err != nil || entry.Rev == 0 {
		return fence.State{}, entry, err
	}
	var s fence.State
	err = json.Unmarshal(entry.Value, &s)
	return s, entry, err
}

func (f *storeFence) Seal(ctx context.Context, tok shard.Token) error {
	if err := fence.CheckToken(tok); err != nil {
		return err
	}
	for {
		s, entry, err := f.known(ctx, tok)
		if err != nil {
			return err
		}
		if err := s.Refuse(tok); !errors.Is(err, fence.ErrNotSealed) {
			return err
		}
		value, err := json.Marshal(fence.State{GroupID: tok.GroupID, Epoch: tok.Epoch, Wanted: tok.Epoch})
		if err != nil {
			return err
		}
		rev, err := f.store.Commit(ctx, cas.Txn{
			If:   []cas.Cond{cas.AtRev(entry.Key, entry.Rev)},
			Then: []cas.Op{cas.Put(entry.Key, value)},
		})
		if _, conflict := errors.AsType[*cas.ConflictError](err); conflict {
			continue
		}
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.guard[tok] = cas.AtRev(entry.Key, rev)
		}
		return err
	}
}

func (f *storeFence) Add(ctx context.Context, tok shard.Token, account, n int) error {
	if err := fence.CheckToken(tok); err != nil {
		return err
	}
	f.mu.Lock()
	guard, sealed := f.guard[tok]
	f.mu.Unlock()
	for {
		key := accountKey(account)
		entry, err := f.store.Get(ctx, key)
		if err != nil {
			return err
		}
		if sealed {
			have, _ := strconv.Atoi(string(entry.Value))
			_, err = f.store.Commit(ctx, cas.Txn{
				If:   []cas.Cond{guard, cas.AtRev(key, entry.Rev)},
				Then: []cas.Op{cas.Put(key, strconv.AppendInt(nil, int64(have+n), 10))},
			})
			if _, conflict := errors.AsType[*cas.ConflictError](err); !conflict {
				return err
			}
		}
		s, _, err := f.known(ctx, tok)
		if err != nil {
			return err
		}
		if err := s.Refuse(tok); err != nil || !sealed {
			return err
		}
	}
}

func accountKey(account int) string { return fmt.Sprintf("/accounts/%d", account) }

func (f *storeFence) Balance(ctx context.Context, account int) (int, error) {
	entry, err := f.store.Get(ctx, accountKey(account))
	n, _ := strconv.Atoi(string(entry.Value))
	return n, err
}

func TestStore(t *testing.T) {
	fencetest.Run(t, fencetest.Subject{New: func(testing.TB, fencetest.Options) fencetest.Fence {
		return &storeFence{store: memkv.New(), guard: make(map[shard.Token]cas.Cond)}
	}})
}
