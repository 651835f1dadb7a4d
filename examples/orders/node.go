package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// roleVariable makes a process a node.
const roleVariable = "TENURE_ORDERS_ROLE"

// role is what a node is told.
type role struct {
	Node     string
	Founders int // the first grants wait for so many
	Etcd     string
	Brokers  []string
	Group    shard.Group
	Topics   topics
	Database string
	Verbose  bool
}

// topics are the names on the brokers.
type topics struct{ Orders, Payments, Dead string }

func (t topics) of(k kind) string {
	if k == orders {
		return t.Orders
	}
	return t.Payments
}

// report is a line that a node prints.
type report struct {
	Node    string
	Address string `json:",omitempty"` // it will listen there
	Left    bool   `json:",omitempty"` // all its shards are handed over
}

// ttl is the least there is: here a crash is to be noticed soon. See docs/choosing.md for yours.
const ttl = 2 * time.Second

// nodeMain is a node process's main.
func nodeMain(r role, err error) int {
	if err == nil {
		err = runNode(context.Background(), r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", r.Node, err)
		return exitWrong
	}
	// It stays until the parent has heard that it has left, and ends it.
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	if child.Tell(report{Node: r.Node, Left: true}) == nil {
		<-ended
	}
	return exitGood
}

// runNode is what a service's main looks like. It returns when the node has left.
func runNode(ctx context.Context, r role) (err error) {
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
	db, err := openDatabase(r.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	shop, err := newShop(ctx, r.Node, db, r, kafka.ConsumerConfig{
		Client:     []kgo.Opt{kgo.SeedBrokers(r.Brokers...)},
		DeadLetter: r.Topics.Dead,
		Tries:      tries,
		Logger:     logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.close()) }()

	// The system chooses the port, and peers read it from the member's record.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	node, err := owner.New(store, r.Group, shop.serve, owner.Config{
		ID: r.Node, Address: address, TTL: ttl, MinMembers: r.Founders, Settle: 500 * time.Millisecond, Logger: logger,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	table, err := router.Open(ctx, store, r.Group, logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer table.Close()
	web, err := router.NewHTTP(table, node, router.HTTPConfig{Logger: logger})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	server := &http.Server{
		Handler: shop.routes(web, leave), ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	if err := child.Tell(report{Node: r.Node, Address: address}); err != nil {
		return errors.Join(err, listener.Close())
	}
	return router.Serve(ctx, node, router.ServeConfig{Linger: time.Second, Shutdown: 5 * time.Second},
		router.Endpoint{Listener: listener, Server: server})
}

// tries of a record that fails alone: with the back-off between them it takes half a second, for which its shard's topic waits.
const tries = 3
