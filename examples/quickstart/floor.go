package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/examples/internal/wait"
)

// The parts of those who measure the floor; see story.measureFloor.
const (
	partCaller = "caller"
	partEcho   = "echo"
)

// measureFloor measures what a hand-off can't do without, on the same etcd, under the same load: two commits, one
// after the other, and the delivery of each to another process. Two processes of their own do it, as nodes are,
// because within one process all that is much faster.
func (s *story) measureFloor(ctx context.Context) error {
	var mu sync.Mutex // guards floor
	floor := time.Duration(0)
	hear := func(ev event) {
		mu.Lock()
		defer mu.Unlock()
		floor = ev.Floor
	}
	c := s.cluster.config
	for _, part := range []string{partEcho, partCaller} {
		c.ID, c.Floor = "floor-"+part, part
		p, err := startNode(ctx, c, s.stderr, hear)
		if err != nil {
			return err
		}
		defer p.kill()
	}
	return wait.Until(ctx, 20*time.Second, "the floor to be measured", func() (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		s.floor = floor
		return floor > 0, "no answer"
	})
}

// measurePart is the main of those processes. The caller changes one key and waits for the echo to change another.
func measurePart(ctx context.Context, c nodeConfig) error {
	client, err := dial(c.Etcd)
	if err != nil {
		return err
	}
	defer client.Close()
	store := etcdkv.New(client)
	defer store.Close()
	call, echo := c.Group.Prefix+"/floor/call", c.Group.Prefix+"/floor/echo"
	mine, other := call, echo
	if c.Floor == partEcho {
		mine, other = echo, call
	}
	snap, err := store.List(ctx, other)
	if err != nil {
		return err
	}
	watch := store.Watch(ctx, other, snap.Rev)
	events := &eventWriter{w: json.NewEncoder(os.Stdout)}
	events.write(event{Address: "none"})

	if c.Floor == partEcho {
		for {
			if err := heard(ctx, watch); err != nil {
				return err
			}
			if err := change(ctx, store, mine); err != nil {
				return err
			}
		}
	}
	var took []time.Duration
	for begun := time.Now(); len(took) < 20 || len(took) < 200 && time.Since(begun) < time.Second; {
		start := time.Now()
		if err := change(ctx, store, mine); err != nil {
			return err
		}
		if err := heard(ctx, watch); err != nil {
			return err
		}
		took = append(took, time.Since(start))
	}
	events.write(event{Floor: time.Duration(spreadOf(took).P50 * float64(time.Millisecond))})
	<-ctx.Done()
	return nil
}

func change(ctx context.Context, s cas.Store, key string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := s.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put(key, nil)}})
	return err
}

// heard waits for the next change.
func heard(ctx context.Context, watch <-chan cas.Change) error {
	for {
		select {
		case c, ok := <-watch:
			switch {
			case !ok:
				return errors.New("the watch has ended")
			case c.Err != nil:
				return fmt.Errorf("watch: %w", c.Err)
			case len(c.Events) > 0:
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
