// Package embedded runs one etcd server in the benchmark's process, for a machine that has none.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Start runs a server with its data under dir, synced to disk as usual, until stop is called. It ticks faster than
// etcd's default, so that it is ready at once, and takes leases of 2 s. On error nothing is left running.
func Start(ctx context.Context, dir string) (endpoint string, stop func(), err error) {
	c := embed.NewConfig()
	c.Dir = dir
	c.TickMs, c.ElectionMs = 50, 500
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	peer, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	client := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return "", nil, fmt.Errorf("embedded: start etcd: %w", err)
	}
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	select {
	case <-e.Server.ReadyNotify():
		return e.Clients[0].Addr().String(), e.Close, nil
	case err = <-e.Err():
	case <-timeout.C:
		err = errors.New("not ready after 30s: is the disk that slow?")
	case <-ctx.Done():
		err = ctx.Err()
	}
	e.Close()
	return "", nil, fmt.Errorf("embedded: start etcd: %w", err)
}

// freeAddress finds a port for etcd's peers, which can't be left to the system as the clients' can.
func freeAddress() (url.URL, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, fmt.Errorf("embedded: find a free port: %w", err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}, nil
}
