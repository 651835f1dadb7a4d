package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
)

// orders are what a consuming process is told.
type orders struct {
	Run, ID, Etcd, Brokers, DSN, Dir string
	Topic, Changes                   string
	TTL                              time.Duration
	NoFence                          bool
}

// consume is the whole of a consuming process: two nodes, until it is told to end.
func consume(o orders) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	toEtcd, toKafka := new(wire), new(wire)
	cuts := make(chan os.Signal, 8)
	signal.Notify(cuts, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range cuts {
			w := toKafka
			if s == syscall.SIGUSR1 {
				w = toEtcd
			}
			w.cut.Store(!w.cut.Load())
		}
	}()

	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: []string{o.Etcd}, Logger: zap.NewNop(), DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return toEtcd.dial(ctx, "tcp", addr)
		})},
	})
	if err != nil {
		return err
	}
	defer etcd.Close()
	client := []kgo.Opt{kgo.SeedBrokers(strings.Split(o.Brokers, ",")...), kgo.Dialer(toKafka.dial)}
	store := etcdkv.New(etcd)

	l, err := openLedger(o.DSN, o.Dir, o.Run, o.NoFence)
	if err != nil {
		return err
	}
	defer l.db.Close()
	toLedger, done, err := ledgerNode(ctx, o, store, client, l)
	if err != nil {
		return err
	}
	defer done()
	toLog, done, err := changelogNode(ctx, o, store, client)
	if err != nil {
		return err
	}
	defer done()

	ended := make(chan error, 2)
	for _, n := range []*owner.Node{toLedger, toLog} {
		go func() { ended <- n.Run(ctx) }()
	}
	return errors.Join(<-ended, <-ended)
}

func logger(id, what string) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("process", id, "node", what)
}

func (o orders) node(what string) owner.Config {
	return owner.Config{ID: fmt.Sprintf("%s-%s", o.ID, what), TTL: o.TTL, Logger: logger(o.ID, what)}
}

func ledgerNode(ctx context.Context, o orders, store cas.Store, client []kgo.Opt, l *ledger) (*owner.Node, func(), error) {
	g := groupOf("ledger", o.Run)
	c, err := kafka.NewConsumer(ctx, g, o.Topic, l.open, kafka.ConsumerConfig{Client: client, MaxBatch: 100, Logger: logger(o.ID, "ledger"), LagGroup: g.Name})
	if err != nil {
		return nil, nil, err
	}
	n, err := owner.New(store, g, c.Serve, o.node("ledger"))
	return n, func() { c.Close() }, err
}

func changelogNode(ctx context.Context, o orders, store cas.Store, client []kgo.Opt) (*owner.Node, func(), error) {
	g := groupOf("sums", o.Run)
	log, err := kafka.OpenChangelog(ctx, g, o.Changes, kafka.ChangelogConfig{
		Client: client, Checkpoints: kafka.OnCAS(store, "/checkpoints"), Trim: true, Logger: logger(o.ID, "sums"),
	})
	if err != nil {
		return nil, nil, err
	}
	s := &sums{log}
	c, err := kafka.NewConsumer(ctx, g, o.Topic, s.open, kafka.ConsumerConfig{Client: client, Logger: logger(o.ID, "sums")})
	if err != nil {
		log.Close()
		return nil, nil, err
	}
	conf := o.node("sums")
	conf.Prepare = s.prepare(c)
	n, err := owner.New(store, g, c.Serve, conf)
	return n, func() {
		c.Close()
		log.Close()
	}, err
}
