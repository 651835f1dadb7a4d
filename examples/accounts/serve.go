package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"path/filepath"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/tenure-go/tenure/cas"
	pb "github.com/tenure-go/tenure/examples/accounts/accountspb"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/shard"
)

// start connects to store and database, and serves until ctx ends.
func start(ctx context.Context, c config, log *slog.Logger) (err error) {
	dir, tidy, err := c.directory()
	if err != nil {
		return err
	}
	defer tidy()
	store, hangUp, err := openStore(ctx, c, dir, log)
	if err != nil {
		return err
	}
	defer hangUp()
	var v vault
	if c.database != "" {
		v, err = openPostgres(ctx, c.database)
	} else {
		v, err = openSQLite(filepath.Join(dir, "accounts.db"))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	if err := v.install(ctx); err != nil {
		return err
	}
	return serve(ctx, c, store, v, log)
}

// metaGRPC is the entry of a member's Meta with its address for gRPC. Its Address is the one for HTTP.
const metaGRPC = "grpc"

// serve runs a node with its servers until ctx ends, and returns when all is handed over and shut down.
func serve(ctx context.Context, c config, store cas.Store, v vault, log *slog.Logger) error {
	// Listen first: with port 0 the system chooses, and peers read the address from the member's record.
	listeners, err := listen(c.http, c.grpc, c.debug)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // unless router.Serve has
		}
	}()
	ledger := newLedger(v)
	conf := c.owner
	conf.Address = c.reachable(listeners[0])
	conf.Meta = map[string]string{metaGRPC: c.reachable(listeners[1])}
	conf.Logger = log
	if info, ok := debug.ReadBuildInfo(); ok {
		conf.Version = info.Main.Version
	}
	node, err := owner.New(store, Group, ledger.serve, conf)
	if err != nil {
		return err
	}
	table, err := router.Open(ctx, store, Group, log)
	if err != nil {
		return err
	}
	defer table.Close()
	forward, err := router.NewHTTP(table, node, router.HTTPConfig{Logger: log})
	if err != nil {
		return err
	}
	key := grpcrouter.Field(keyField)
	peers, err := grpcrouter.NewClient(table, key, grpcrouter.Config{
		Target: func(m shard.Member) string { return m.Meta[metaGRPC] },
		Logger: log,
	})
	if err != nil {
		return err
	}
	defer peers.Close()

	public := newServer(web{ledger}.routes(forward, node), log)
	inside := newServer(debugRoutes(node, table), log)
	watches := newWatches()
	options := append([]grpc.ServerOption{watches.option(), grpc.MaxRecvMsgSize(64 << 10)}, grpcrouter.Options(node, key, peers)...)
	calls := grpc.NewServer(options...)
	pb.RegisterAccountsServer(calls, &rpc{ledger: ledger})
	grpc_health_v1.RegisterHealthServer(calls, health.NewServer())
	reflection.Register(calls)

	log.Info("listening", "http", listeners[0].Addr().String(), "grpc", listeners[1].Addr().String(), "debug", listeners[2].Addr().String(),
		"peers_reach", conf.Address, "ends_within", c.longestEnd().String())
	return router.Serve(ctx, node, c.serve,
		router.Endpoint{Listener: listeners[0], Server: public},
		router.Endpoint{Listener: listeners[1], Server: watches.serve(calls)},
		router.Endpoint{Listener: listeners[2], Server: inside})
}

// listen listens everywhere, or nowhere.
func listen(addresses ...string) (all []net.Listener, err error) {
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			return nil, fmt.Errorf("listen on %s: %w", a, err)
		}
		all = append(all, l)
	}
	return all, nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, // above that of load balancers in front
	}
}

// debugRoutes are for people inside: they name nodes and show memory, so by default they listen on the loopback
// interface alone, which kubectl port-forward reaches.
func debugRoutes(node *owner.Node, table *router.Table) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /debug", router.Debug(node, table))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
