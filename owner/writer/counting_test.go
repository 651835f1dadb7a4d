package writer_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

// counting is a Writer that only counts its batches, on a node whose loop can be made to hang.
type counting struct {
	w      *writer.Writer[int, int]
	config owner.Config
}

// newCounting has the node's loop hang at an event, until stuck is closed.
func newCounting(t *testing.T, at func(owner.Event) bool, stuck <-chan struct{}) (*counting, *atomic.Int32) {
	t.Helper()
	var applied atomic.Int32
	w := writer.New(func(context.Context, *owner.Tenure) (writer.Apply[int, int], error) {
		return func(_ context.Context, batch []*writer.Cmd[int, int]) error {
			applied.Add(1)
			for _, c := range batch {
				c.Reply(0)
			}
			return nil
		}, nil
	}, writer.Config{})
	var config owner.Config
	config.Hooks.Tenure = func(ev owner.Event) {
		if at(ev) {
			<-stuck
		}
	}
	return &counting{w: w, config: config}, &applied
}

func (c *counting) start(t *testing.T, g shard.Group) *ownertest.Cluster {
	t.Helper()
	return ownertest.Start(t, 1, g, c.w.Serve, c.config)
}
