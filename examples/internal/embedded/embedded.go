// Package embedded runs one etcd server inside an example's process, so that the example needs nothing around it. Not for
// production: leave it out of a copy, and a good half of the binary with it.
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

// Start runs a server with its data under dir, synced to disk as usual, until stop is called. Its clock ticks ten times as
// fast as the default, so that it is there at once; nothing else is tuned. On error nothing is left running.
func Start(ctx context.Context, dir string) (endpoint string, stop func(), err error) {
	c := embed.NewConfig()
	c.Dir = dir
	c.TickMs, c.ElectionMs = 10, 100
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	client := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	peer, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)

	e, err := embed.StartEtcd(c)
	if err != nil {
		return "", nil, fmt.Errorf("start etcd: %w", err)
	}
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	select {
	case <-e.Server.ReadyNotify():
		return e.Clients[0].Addr().String(), e.Close, nil
	case err = <-e.Err():
		err = fmt.Errorf("start etcd: %w", err)
	case <-timeout.C:
		err = errors.New("waited 20s for the embedded etcd to be ready: is the disk that slow?")
	case <-ctx.Done():
		err = ctx.Err()
	}
	e.Close()
	return "", nil, err
}

// freeAddress finds a port for etcd's peers, which can't be left to the system as the clients' can.
func freeAddress() (url.URL, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}, nil
}
