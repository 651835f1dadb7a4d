package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// roleVariable makes this program a node; its value is a nodeConfig in JSON.
const roleVariable = "TENURE_CHAOS_NODE"

// nodeConfig is what a node is told.
type nodeConfig struct {
	ID        string
	Advertise string // where peers reach it: a proxy
	Etcd      []string
	Postgres  string
	Group     shard.Group
	Fenced    bool
	Takeover  bool // its predecessor is dead for certain
	Defaults  bool // the library's own times, instead of these
	TTL       time.Duration
	Wait      time.Duration // for a hand-off; 0: the default
	Linger    time.Duration
	Idle      time.Duration // of the fence
}

// event is what a node tells its parent, one a line on stdout.
type event struct {
	Address string       `json:",omitempty"` // it listens there
	Stale   *stale       `json:",omitempty"` // a resource has refused a write or a read of an owner that was replaced
	Late    *shard.Token `json:",omitempty"` // a write after the tenure's loss was accepted
	Turn    *turn        `json:",omitempty"` // in a tenure's life
}

type stale struct {
	Token shard.Token
	Kind  string
	Err   string
}

type turn struct {
	Shard int
	Epoch shard.Epoch
	State owner.State
	Err   string `json:",omitempty"`
}

// runNode is a node process's main. It returns the exit status.
func runNode(role string) int {
	var c nodeConfig
	if err := json.Unmarshal([]byte(role), &c); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", roleVariable, err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := serveNode(ctx, c, logger); err != nil {
		logger.Error("node ends", "err", err)
		return exitWrong
	}
	return exitGood
}

// serveNode is what a service's main looks like. Errors are those of its parts.
func serveNode(ctx context.Context, c nodeConfig, logger *slog.Logger) error {
	client, err := dial(c.Etcd)
	if err != nil {
		return err
	}
	defer client.Close()
	store := etcdkv.New(client)
	defer store.Close()

	db, err := sql.Open("pgx", c.Postgres)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(16) // five nodes share a server that takes a hundred by default
	db.SetMaxIdleConns(16)
	fences, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{Idle: c.Idle})
	if err != nil {
		return err
	}
	events := &eventWriter{w: json.NewEncoder(os.Stdout)}
	work := &service{
		node: c.ID, tell: events.write,
		sql:   &sqlRegisters{db: db, fences: fences, fenced: c.Fenced},
		store: &storeRegisters{store: store, fenced: c.Fenced},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	conf := owner.Config{
		ID: c.ID, Address: c.Advertise, Takeover: c.Takeover, Logger: logger,
		Hooks: owner.Hooks{Tenure: func(e owner.Event) {
			t := &turn{Shard: e.Token.Shard, Epoch: e.Token.Epoch, State: e.State}
			if e.Err != nil {
				t.Err = e.Err.Error()
			}
			events.write(event{Turn: t})
		}},
	}
	if !c.Defaults {
		conf.TTL, conf.StartTimeout, conf.DrainTimeout = c.TTL, 5*time.Second, 4*time.Second
		conf.WaitTimeout, conf.Settle = c.Wait, 300*time.Millisecond
	}
	node, err := owner.New(store, c.Group, work.serve, conf)
	if err != nil {
		return err
	}
	events.write(event{Address: listener.Addr().String()})
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
	mux.Handle("POST /registers/{key}", web.Route(router.PathValue("key"), work.handle))
	server := &http.Server{
		Handler: mux, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	serve := router.ServeConfig{}
	if !c.Defaults {
		serve = router.ServeConfig{Linger: c.Linger, Shutdown: 5 * time.Second}
	}
	return router.Serve(ctx, node, serve, router.Endpoint{Listener: listener, Server: server})
}

// order is the body of a request.
type order struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Arg  int64  `json:"arg"`
}

// answer is the body of its answer.
type answer struct {
	Value int64       `json:"value"`
	Node  string      `json:"node"`
	Epoch shard.Epoch `json:"epoch"`
}

// handle is the HTTP handler. It runs only in the owner of the register's shard.
func (s *service) handle(w http.ResponseWriter, r *http.Request, t *owner.Tenure) {
	var o order
	if err := json.NewDecoder(io.LimitReader(r.Body, 4<<10)).Decode(&o); err != nil {
		router.WriteError(w, r, errors.Join(refusal("unreadable order"), err))
		return
	}
	v, err := s.submit(t, r.PathValue("key"), o)
	if err != nil {
		router.WriteError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{v, s.node, t.Token().Epoch}) // a client that has gone is uncertain
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
