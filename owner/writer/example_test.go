package writer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

type withdrawal struct {
	account string
	amount  int
}

var errFunds = errors.New("not enough money")

// disk stands for a database: what is saved in one go is there or it is not.
type disk struct {
	mu       sync.Mutex // guards balances
	balances map[string]int
}

func (d *disk) load() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.balances)
}

func (d *disk) save(changed map[string]int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.Copy(d.balances, changed)
	return nil
}

// Balances are held in memory; a batch is decided there and saved with one write for each account that it changed.
func Example() {
	disk := &disk{balances: map[string]int{"alice": 100}}
	w := writer.New(func(_ context.Context, t *owner.Tenure) (writer.Apply[withdrawal, int], error) {
		// A service seals its database first (fence.SQL.Seal), and saves in a guarded transaction (fence.SQL.Tx).
		balances := disk.load()
		return func(_ context.Context, batch []*writer.Cmd[withdrawal, int]) error {
			changed := make(map[string]int)
			for _, c := range batch {
				balance, ok := changed[c.Value.account]
				if !ok {
					balance = balances[c.Value.account]
				}
				if balance < c.Value.amount {
					c.Reject(errFunds)
					continue
				}
				balance -= c.Value.amount
				changed[c.Value.account] = balance
				c.Reply(balance)
			}
			if err := disk.save(changed); err != nil {
				return err // memory is as before: the batch may be run again
			}
			maps.Copy(balances, changed)
			return nil
		}, nil
	}, writer.Config{})

	store := memkv.New() // etcdkv.New(client), where it counts
	defer store.Close()
	node, err := owner.New(store, shard.Group{Name: "accounts", Shards: 16}, w.Serve, owner.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, leave := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	for _, amount := range []int{30, 50, 40} {
		var balance int
		withdraw := func(ctx context.Context, t *owner.Tenure) (err error) {
			balance, err = w.Do(ctx, t, withdrawal{"alice", amount})
			return err
		}
		err := node.Do(ctx, "alice", withdraw)
		for no := (*owner.NotOwnerError)(nil); errors.As(err, &no); err = node.Do(ctx, "alice", withdraw) {
			<-time.After(10 * time.Millisecond) // nobody owns it yet: the node is joining. A router waits by itself
		}
		fmt.Println(amount, balance, err)
	}
	leave()
	fmt.Println("left:", <-ended)
	// Output:
	// 30 70 <nil>
	// 50 20 <nil>
	// 40 0 writer: rejected: not enough money
	// left: <nil>
}
