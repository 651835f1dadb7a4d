package kafka

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/tenure-go/tenure/owner"
)

// Together is the handler of a node whose group's owners consume several topics, each by a Consumer of its own.
//
// It opens the shard with all of them, in this order and one after another; then it admits requests, and consumes all partitions at the same
// time until the tenure ends. Half a shard is never served: if one can't be opened the start has failed, as with a single Consumer, and if one ends,
// by an error or a panic, the others do too. What the topics share, a state in memory say, is made before:
//
//	serve := kafka.Together(orders, payments)
//	handler := func(ctx context.Context, t *owner.Tenure) error {
//		... // seal, and load the shard's state to where both Opens find it
//		return serve(ctx, t)
//	}
//
// Each Process is called by itself, so two of them run at the same time: what they share needs a lock, or a transaction.
func Together(consumers ...*Consumer) owner.Handler {
	return func(ctx context.Context, t *owner.Tenure) error {
		if len(consumers) == 0 {
			return refused("Together: want a Consumer")
		}
		workers := make([]*worker, len(consumers))
		for i, c := range consumers {
			var err error
			if workers[i], err = c.opened(ctx, t, c.open); err != nil {
				return err
			}
		}
		t.Ready()
		return together(ctx, len(workers), func(ctx context.Context, i int) error { return consumers[i].work(ctx, workers[i]) })
	}
}

// together runs n parts of one tenure. When the first ends all others are ended, and waited for.
func together(ctx context.Context, n int, run func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, n)
	for i := range n {
		go func() {
			err := errors.New("kafka: Process or Advance has ended its goroutine, by runtime.Goexit")
			defer func() {
				if p := recover(); p != nil { // here, for nobody else would catch it
					err = fmt.Errorf("kafka: panic: %v\n%s", p, debug.Stack())
				}
				ended <- err
			}()
			err = run(ctx, i)
		}()
	}
	all := make([]error, n)
	for i := range all {
		all[i] = <-ended
		cancel()
	}
	return errors.Join(all...)
}
