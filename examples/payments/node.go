package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// roleVariable makes a process a node.
const roleVariable = "TENURE_PAYMENTS_ROLE"

type role struct {
	Node     string
	Etcd     string
	Group    shard.Group
	Database string
	Provider string // its URL
	NoIdem   bool
	Verbose  bool
	Linger   time.Duration // the most that it stays at each moment
}

// report is a line that a node prints: it is at that moment of a payment, and lingers there, for else nearly all kills would
// land where it waits for the provider.
type report struct {
	Node    string
	Payment string
	At      moment
}

// moment is how far a payment has come.
type moment string

const (
	charging moment = "charging" // the provider is about to be asked
	charged  moment = "charged"  // it has charged: only the provider reports this
	booked   moment = "booked"   // entry and step are committed
	recorded moment = "recorded" // the operation is, with its result; the job is still in the queue
)

// ttl is the least there is: here a crash is to be noticed soon. See docs/choosing.md for yours.
const ttl = 2 * time.Second

func runNode(ctx context.Context, r role) error {
	logger := slog.New(slog.DiscardHandler)
	if r.Verbose {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", r.Node)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{r.Etcd}, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	store := etcdkv.New(client)
	defer store.Close()
	b, err := openBooks(r.Database)
	if err != nil {
		return err
	}
	defer b.close()
	engine, err := idem.New(b.store, idem.Config{})
	if err != nil {
		return err
	}
	// It gives up long before the provider would: a reply that does not come is a payment that is tried again.
	third := provider.Client{URL: r.Provider, Name: r.Node, HTTP: &http.Client{Timeout: 200 * time.Millisecond}}
	payer := &Payer{Engine: engine, Charge: third.Charge, Book: b.book, At: func(ctx context.Context, m moment, p Payment) {
		if child.Tell(report{r.Node, p.ID, m}) == nil && r.Linger > 0 {
			pause(ctx, time.Duration(rand.Int64N(int64(r.Linger))))
		}
	}}
	w := &worker{books: b, payer: payer, noIdem: r.NoIdem, logger: logger}
	node, err := owner.New(store, r.Group, w.serve, owner.Config{ID: r.Node, TTL: ttl, Settle: 500 * time.Millisecond, Logger: logger})
	if err != nil {
		return err
	}
	return node.Run(ctx)
}
