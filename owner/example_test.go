package owner_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// counters keeps a shard's state in memory for as long as its tenure lasts. A request finds it by its tenure.
type counters struct{ states sync.Map } // *state by *owner.Tenure

type state struct {
	mu sync.Mutex // guards n: requests of one shard run side by side
	n  map[string]int
}

// serve is the handler: seal, load, be ready, work until the context ends, flush.
func (c *counters) serve(ctx context.Context, t *owner.Tenure) error {
	// Here a service seals its database (fence.SQL.Seal) and then loads the shard's state from it.
	c.states.Store(t, &state{n: make(map[string]int)})
	defer c.states.Delete(t)
	t.Ready()
	<-ctx.Done()
	return nil // and here it would flush, under t.Context(), if the context's cause is owner.ErrHandoff
}

func (c *counters) add(ctx context.Context, key string) (int, error) {
	t, err := owner.From(ctx)
	if err != nil {
		return 0, err
	}
	found, _ := c.states.Load(t)
	s := found.(*state)
	s.mu.Lock()
	defer s.mu.Unlock()
	// Here a service writes under t.Token() first, and calls t.Fail if it can't know whether that was applied.
	s.n[key]++
	return s.n[key], nil
}

// A handler that keeps state in memory, and a request that uses it.
func Example_stateInMemory() {
	store := memkv.New() // etcdkv.New(client), where it counts
	defer store.Close()
	c := &counters{}
	node, err := owner.New(store, shard.Group{Name: "counters", Shards: 16}, c.serve, owner.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, leave := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	for done := 0; done < 3; {
		err := node.Do(ctx, "alice", func(ctx context.Context, t *owner.Tenure) error {
			n, err := c.add(ctx, "alice")
			fmt.Println("alice:", n)
			return err
		})
		if err == nil {
			done++
			continue
		}
		<-time.After(10 * time.Millisecond) // nobody owns it yet: the node is joining. A router waits by itself
	}
	leave()
	fmt.Println("left:", <-ended)
	// Output:
	// alice: 1
	// alice: 2
	// alice: 3
	// left: <nil>
}
