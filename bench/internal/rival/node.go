package rival

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

// command is a request as the owner's writer sees it: add 1 to an account.
type command = writer.Cmd[int, int64]

type (
	apply = writer.Apply[int, int64]
	open  = writer.Open[int, int64]
)

// owned is a node that owns all shards, with a writer, on etcd.
type owned struct {
	node   *owner.Node
	writer *writer.Writer[int, int64]
	names  []string
	stop   func()
}

func newOwned(ctx context.Context, p *Places, w Work, o open, c writer.Config) (*owned, error) {
	group := shard.Group{Name: strings.ReplaceAll(p.name("group"), "_", "-"), Shards: w.Shards}
	store := etcdkv.New(p.Etcd)
	n := &owned{writer: writer.New(o, c), names: keys(w.Accounts)}
	ready := make(chan struct{}, w.Shards)
	failed := make(chan error, 1)
	node, err := owner.New(store, group, n.writer.Serve, owner.Config{
		Settle: 50 * time.Millisecond,
		Hooks: owner.Hooks{Tenure: func(e owner.Event) {
			switch e.State {
			case owner.Ready:
				select {
				case ready <- struct{}{}:
				default:
				}
			case owner.Failed, owner.Lost:
				select {
				case failed <- e.Err:
				default:
				}
			}
		}},
	})
	if err != nil {
		return nil, err
	}
	n.node = node
	running, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := node.Run(running); err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	}()
	n.stop = func() {
		cancel()
		<-ended
		_ = store.Close()
	}
	for range w.Shards {
		select {
		case <-ready:
		case err := <-failed:
			n.stop()
			return nil, fmt.Errorf("rival: a shard did not start: %w", err)
		case <-ctx.Done():
			n.stop()
			return nil, ctx.Err()
		}
	}
	return n, nil
}

// do is a request: through the gate, into the queue, and its reply.
func (n *owned) do(ctx context.Context, _, account int) error {
	return n.node.Do(ctx, n.names[account], func(ctx context.Context, t *owner.Tenure) error {
		_, err := n.writer.Do(ctx, t, account)
		return err
	})
}

// own lists the accounts of t's shard.
func own(t *owner.Tenure, names []string) []int {
	var ids []int
	for id, name := range names {
		if t.Owns(name) {
			ids = append(ids, id)
		}
	}
	return ids
}

func ownedContender(name, note string, o func(ctx context.Context) (*owned, func(context.Context) (int64, error), func(), error)) measure.Contender {
	return measure.Contender{Name: name, Note: note, Ours: true, Open: func(ctx context.Context) (*measure.Instance, error) {
		n, sum, drop, err := o(ctx)
		if err != nil {
			return nil, err
		}
		return &measure.Instance{Do: n.do, Sum: sum, Close: func() { n.stop(); drop() }}, nil
	}}
}
