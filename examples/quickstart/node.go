package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// roleVariable makes this program a node; its value is a nodeConfig in JSON.
const roleVariable = "TENURE_QUICKSTART_NODE"

// ttl is the least there is: the story waits it out twice. In production 10 s is a good start.
const ttl = 2 * time.Second

// nodeConfig is what a node is told.
type nodeConfig struct {
	ID      string
	Etcd    []string
	Group   shard.Group
	DB      string
	Fenced  bool
	Verbose bool
	Floor   string // not a node, but a part in measureFloor
}

// runNode is a node process's main. It returns the exit status.
func runNode(role string) int {
	var c nodeConfig
	if err := json.Unmarshal([]byte(role), &c); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", roleVariable, err)
		return exitUsage
	}
	// A Ctrl-C goes to every process of the terminal. The parent decides what it means.
	signal.Ignore(os.Interrupt)
	ctx, stop := signal.NotifyContext(context.Background(), leaveSignals()...)
	defer stop()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	go obey(os.Stdin, leave)

	serve := serveNode
	if c.Floor != "" {
		serve = measurePart
	}
	if err := serve(ctx, c); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.ID, err)
		return exitWrong
	}
	return exitGood
}

// obey follows the parent's orders. When there are no more the parent is gone, and nobody is left to work for.
func obey(orders io.Reader, leave func()) {
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		if lines.Text() == orderLeave {
			leave()
		}
	}
	os.Exit(exitWrong)
}

// serveNode is what a service's main looks like. Errors are those of its parts.
func serveNode(ctx context.Context, c nodeConfig) error {
	logger := slog.New(slog.DiscardHandler)
	if c.Verbose {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", c.ID)
	}
	client, err := dial(c.Etcd)
	if err != nil {
		return err
	}
	defer client.Close()
	store := etcdkv.New(client)
	defer store.Close()

	db, err := openDB(ctx, c.DB)
	if err != nil {
		return err
	}
	defer db.Close()
	turns, err := openTurns(c.DB + ".turn")
	if err != nil {
		return err
	}
	defer turns.close()
	fences, err := fence.NewSQL(db, fence.SQLite, fence.SQLConfig{})
	if err != nil {
		return err
	}
	events := &eventWriter{w: json.NewEncoder(os.Stdout)}
	bank := &bank{node: c.ID, db: db, turns: turns, fences: fences, fenced: c.Fenced, tell: events.write}

	// The system chooses the port, and peers read it from the member's record.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	node, err := owner.New(store, c.Group, bank.serve, owner.Config{
		ID: c.ID, Address: address, TTL: ttl, MinMembers: founders, Settle: 500 * time.Millisecond, Logger: logger,
		Hooks: owner.Hooks{Tenure: func(e owner.Event) {
			if e.State == owner.Draining {
				events.write(event{Drain: &drain{e.Token.Shard, time.Now()}})
			}
		}},
	})
	if err != nil {
		return err
	}
	table, err := router.Open(ctx, store, c.Group, logger)
	if err != nil {
		return err
	}
	defer table.Close()
	web, err := router.NewHTTP(table, node, router.HTTPConfig{Logger: logger})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /readyz", router.Readyz(node))
	mux.Handle("POST /accounts/{id}/deposits", web.Route(router.PathValue("id"), bank.deposit))
	mux.Handle("POST /accounts/{id}/withdrawals", web.Route(router.PathValue("id"), bank.withdraw))
	server := &http.Server{
		Handler: mux, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	events.write(event{Address: address})
	return router.Serve(ctx, node, router.ServeConfig{Linger: time.Second, Shutdown: 5 * time.Second},
		router.Endpoint{Listener: listener, Server: server})
}

// dial makes a quiet client.
func dial(endpoints []string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd client for %v: %w", endpoints, err)
	}
	return c, nil
}

// event is what a node tells its parent, one a line on stdout.
type event struct {
	Address string        `json:",omitempty"` // it is up, and will listen there
	Asleep  bool          `json:",omitempty"` // it stops itself now
	Stale   *stale        `json:",omitempty"` // it has written under an epoch that is over
	Drain   *drain        `json:",omitempty"` // it hands a shard over
	Floor   time.Duration `json:",omitempty"` // what it has measured
}

// drain is when a gate was closed. All processes read one clock.
type drain struct {
	Shard int
	At    time.Time
}

type eventWriter struct {
	mu sync.Mutex // one line at a time; the parent always reads, so nobody holds it for long
	w  *json.Encoder
}

func (e *eventWriter) write(ev event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.w.Encode(ev) // without a parent this process ends anyway
}
