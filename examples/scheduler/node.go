package main

import (
	"context"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// roleVariable makes a process a node.
const roleVariable = "TENURE_SCHEDULER_ROLE"

type role struct {
	Name  string        `json:"name"` // of the job, and of the group
	Node  string        `json:"node"`
	Etcd  string        `json:"etcd"`
	Every time.Duration `json:"every"`
}

// report is a line that a node prints.
type report struct {
	Node string    `json:"node"`
	At   time.Time `json:"at"` // the planned time
	What string    `json:"what"`
	Key  string    `json:"key,omitempty"`
}

const (
	collected = "collected"
	posting   = "being posted" // about to, which takes a while
	posted    = "posted, and not recorded yet"
)

func runNode(ctx context.Context, r role) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{r.Etcd}, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	store := etcdkv.New(client)
	defer store.Close()
	engine, err := idem.New(idem.OnCAS(store, "/idem/"+r.Name), idem.Config{})
	if err != nil {
		return err
	}
	s := &Schedule{
		Name: r.Name, Store: store, Engine: engine, Logger: slog.Default(),
		Next: func(after time.Time) time.Time { return after.Truncate(r.Every).Add(r.Every) },
		Job:  r.invoices,
	}
	// The least TTL: here a crash is to be noticed soon. See docs/choosing.md for yours.
	node, err := owner.New(store, shard.Single(r.Name), s.Serve, owner.Config{ID: r.Node, TTL: 2 * time.Second})
	if err != nil {
		return err
	}
	return node.Run(ctx)
}

// invoices is the job.
func (r role) invoices(ctx context.Context, op *idem.Op, at time.Time) error {
	n, err := idem.Step(ctx, op, "collect", func(context.Context, string) (int, error) {
		return 3, r.tell(report{At: at, What: collected})
	})
	if err != nil {
		return err
	}
	// Between the effect and the record of it there is a gap, and a run that is killed there posts again: under the same
	// key, by which the receiver knows it.
	_, err = idem.Step(ctx, op, "post", func(ctx context.Context, key string) (int, error) {
		if err := r.tell(report{At: at, What: posting}); err != nil {
			return 0, err
		}
		if !waitUntil(ctx, time.Now().Add(r.Every/10)) { // it is a slow receiver
			return 0, context.Cause(ctx)
		}
		err := r.tell(report{At: at, What: posted, Key: key})
		waitUntil(ctx, time.Now().Add(r.Every/10)) // whose answer takes as long
		return n, err
	})
	return err
}

func (r role) tell(line report) error {
	line.Node = r.Node
	return child.Tell(line)
}
