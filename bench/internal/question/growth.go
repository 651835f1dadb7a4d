package question

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// Size is one point of growth.
type Size struct{ Shards, Members int }

// Planned is about how long it takes, with the end of the group, on a machine that has nothing else to do.
func (s Size) Planned() time.Duration {
	return 1500*time.Millisecond + time.Duration(s.Shards)*80*time.Microsecond + time.Duration(s.Members)*25*time.Millisecond
}

// counted counts what a node asks of its store, and what it is told.
type counted struct {
	cas.Store
	commits, events, bytes *atomic.Int64
}

func (c counted) Commit(ctx context.Context, t cas.Txn) (int64, error) {
	c.commits.Add(1)
	return c.Store.Commit(ctx, t)
}

func (c counted) Watch(ctx context.Context, prefix string, after int64) <-chan cas.Change {
	in, out := c.Store.Watch(ctx, prefix, after), make(chan cas.Change)
	go func() {
		defer close(out)
		for change := range in {
			c.events.Add(int64(len(change.Events)))
			for _, e := range change.Events {
				c.bytes.Add(int64(len(e.Key) + len(e.Value)))
			}
			select {
			case out <- change:
			case <-ctx.Done():
				for range in { // a watch's receiver has to drain it
				}
				return
			}
		}
	}()
	return out
}

// Growth starts groups of several sizes, and waits until each shard is served.
func Growth(ctx context.Context, endpoints *clientv3.Client, run string, sizes []Size, told func(string)) (*report.Table, error) {
	t := &report.Table{
		ID: "growth", Plot: "seconds", Log: true,
		Question: "How long until a new group serves all of its shards, and what does it cost the store?",
		Conditions: "etcd, every commit synced to disk; members are goroutines of one process, each with a watch and a lease of its own, over one connection. " +
			"From the first join to the last shard's Ready, with the second that a new group waits for more members (Config.Settle). Real claims, handlers that are ready at once.",
		Columns: []report.Column{
			{Key: "shards", Name: "shards"},
			{Key: "members", Name: "members"},
			{Key: "seconds", Name: "served after s"},
			{Key: "commits", Name: "transactions"},
			{Key: "events", Name: "watch events"},
			{Key: "megabytes", Name: "MB watched"},
			{Key: "heap", Name: "MB of heap"},
		},
	}
	for i, size := range sizes {
		told(fmt.Sprintf("growth: %d shards, %d members", size.Shards, size.Members))
		row, err := grow(ctx, endpoints, fmt.Sprintf("growth-%s-%d", run, i), size)
		if err != nil {
			row.Say("seconds", "did not get there")
			row.Note = err.Error()
		}
		t.Rows = append(t.Rows, row)
	}
	return t, ctx.Err()
}

func grow(ctx context.Context, client *clientv3.Client, name string, size Size) (report.Row, error) {
	row := report.Row{Name: fmt.Sprintf("%d shards, %d members", size.Shards, size.Members), Ours: true}
	row.Set("shards", float64(size.Shards))
	row.Set("members", float64(size.Members))
	group := shard.Group{Name: name, Shards: size.Shards}
	var commits, events, bytes, ready atomic.Int64
	all, failed := make(chan struct{}), make(chan error, 1)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var stores []cas.Store
	start := time.Now()
	for range size.Members {
		store := etcdkv.New(client)
		stores = append(stores, store)
		node, err := owner.New(counted{store, &commits, &events, &bytes}, group, waits, owner.Config{
			MinMembers: size.Members, TTL: 60 * time.Second,
			Hooks: owner.Hooks{Tenure: func(e owner.Event) {
				if e.State == owner.Ready && ready.Add(1) == int64(size.Shards) {
					close(all)
				}
			}},
		})
		if err != nil {
			return row, err
		}
		wg.Go(func() {
			if err := node.Run(running); err != nil && running.Err() == nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	patience := 2*time.Minute + time.Duration(size.Members)*300*time.Millisecond // each change goes to each member
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	var err error
	select {
	case <-all:
		row.Set("seconds", time.Since(start).Seconds())
		row.Set("commits", float64(commits.Load()))
		row.Set("events", float64(events.Load()))
		row.Set("megabytes", float64(bytes.Load())/1e6)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		row.Set("heap", float64(m.HeapInuse)/1e6)
	case err = <-failed:
	case <-deadline.C:
		err = fmt.Errorf("question: %d of %d shards served after %s", ready.Load(), size.Shards, patience)
	case <-ctx.Done():
		err = ctx.Err()
	}
	// All at once: to leave one by one would have each hand over to those that are left. Stores are closed last: a node whose store is
	// gone waits for it until its drain is over.
	forget(client, group)
	cancel()
	wg.Wait()
	for _, s := range stores {
		_ = s.Close()
	}
	return row, err
}

func waits(ctx context.Context, t *owner.Tenure) error {
	t.Ready()
	<-ctx.Done()
	return nil
}

// forget deletes a group's keys, so that its nodes have nothing to hand over.
func forget(client *clientv3.Client, g shard.Group) {
	g = g.WithDefaults()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, _ = client.Delete(ctx, strings.Join([]string{g.Prefix, g.Name, ""}, "/"), clientv3.WithPrefix())
}
