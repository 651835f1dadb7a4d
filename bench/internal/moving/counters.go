package moving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/shard"
)

// newKeys has a key for each part: the one whose shard it is in a group of so many.
func newKeys() (keys [Parts]string) {
	group := shard.Group{Name: "moving", Shards: Parts}
	for n, found := 0, 0; found < Parts; n++ {
		key := "account-" + strconv.Itoa(n)
		if part := group.Of(key); keys[part] == "" {
			keys[part] = key
			found++
		}
	}
	return keys
}

// counters are in etcd, one for each part. Whoever owns the part keeps its value in memory.
type counters struct {
	endpoints []string
	client    *clientv3.Client
	prefix    string
	name      string // of the trial, for a group
	keys      [Parts]string
}

func (c counters) part(key string) (int, error) {
	if part := slices.Index(c.keys[:], key); part >= 0 {
		return part, nil
	}
	return 0, fmt.Errorf("moving: no part has the key %q", key)
}

func (c counters) key(part int) string { return c.prefix + "counter/" + strconv.Itoa(part) }

func (c counters) load(ctx context.Context, part int) (int, error) {
	got, err := c.client.Get(ctx, c.key(part))
	if err != nil {
		return 0, fmt.Errorf("moving: load: %w", err)
	}
	if len(got.Kvs) == 0 {
		return 0, nil
	}
	return strconv.Atoi(string(got.Kvs[0].Value))
}

var (
	errClosed = errors.New("moving: not the owner")
	errFenced = errors.New("moving: the guard did not hold")
)

// owned is one part at its owner. The zero value is closed.
type owned struct {
	mu    sync.Mutex // held over the write: the next one builds on it
	open  bool
	value int
}

// begin loads the counter.
func (o *owned) begin(ctx context.Context, c counters, part int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := c.load(ctx, part)
	o.value, o.open = n, err == nil
	return err
}

// end returns when no request is inside, and none comes in any more.
func (o *owned) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = false
}

// add stores one more, by way of put.
func (o *owned) add(put func(value string) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open {
		return errClosed
	}
	if err := put(strconv.Itoa(o.value + 1)); err != nil {
		o.open = false // what is stored now is not known
		return err
	}
	o.value++
	return nil
}

func dial(endpoints []string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("moving: etcd: %w", err)
	}
	return c, nil
}
