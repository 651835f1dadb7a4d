// Package etcdtest runs etcd inside a test.
//
//	server := etcdtest.Start(t, etcdtest.Config{})
//	client := server.Client(t)
//
// A server has one member, listens on free ports of the loopback interface, keeps its data
// in the test's temporary directory, and is stopped with all its goroutines when the test
// ends. Its clock ticks ten times as fast as usual, so that it is ready within a tenth of a
// second and grants leases of one second.
//
// Proxy stands between a client and a server and loses what a test wants lost.
package etcdtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Config sets up a server. The zero value suits most tests.
type Config struct {
	Dir      string // data. Defaults to the test's temporary directory
	Fsync    bool   // write through to the disk: for tests of durability and for measurements
	Quota    int64  // bytes of data. Defaults to etcd's 2 GiB
	CertFile string // serve TLS with this certificate and KeyFile
	KeyFile  string
}

// Server is a running etcd.
type Server struct {
	Endpoint string
	Etcd     *embed.Etcd
}

// Start runs a server until the test ends.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	s, err := run(t, c)
	if err != nil {
		t.Fatalf("etcdtest: %v", err)
	}
	return s
}

func run(t testing.TB, c Config) (*Server, error) {
	cfg := embed.NewConfig()
	cfg.Dir = c.Dir
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = !c.Fsync
	cfg.QuotaBackendBytes = c.Quota
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	scheme := "http"
	if c.CertFile != "" {
		scheme = "https"
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = c.CertFile, c.KeyFile
	}
	client := url.URL{Scheme: scheme, Host: "127.0.0.1:0"}
	peer, err := freePort()
	if err != nil {
		return nil, err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return nil, fmt.Errorf("etcd stopped: %w", err)
	case <-time.After(time.Minute):
		return nil, errors.New("etcd was not ready within a minute")
	}
	return &Server{Endpoint: e.Clients[0].Addr().String(), Etcd: e}, nil
}

// freePort finds a port for peers: unlike the clients' it can't be left to the system.
func freePort() (url.URL, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}, nil
}

// Client returns a client that is closed when the test ends.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return Dial(t, clientv3.Config{Endpoints: []string{s.Endpoint}})
}

// Dial returns a quiet client that is closed when the test ends. It notices a dead
// connection within a second and connects anew without much ado.
func Dial(t testing.TB, c clientv3.Config) *clientv3.Client {
	t.Helper()
	c.Logger = zap.NewNop()
	if c.DialTimeout == 0 {
		c.DialTimeout = 5 * time.Second
	}
	c.BackoffWaitBetween = 5 * time.Millisecond
	c.DialOptions = append(c.DialOptions, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}))
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatalf("etcdtest: connect to %v: %v", c.Endpoints, err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
