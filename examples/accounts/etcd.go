package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/examples/internal/embedded"
)

// etcdConfig is how to reach etcd.
type etcdConfig struct {
	endpoints      []string
	ca, cert, key  string // files
	user, password string
}

// openStore connects to etcd, or starts one if there is none to connect to.
func openStore(ctx context.Context, c config, dir string, log *slog.Logger) (store cas.Store, hangUp func(), err error) {
	stop := func() {}
	if len(c.etcd.endpoints) == 0 {
		endpoint, shut, err := embedded.Start(ctx, filepath.Join(dir, "etcd"))
		if err != nil {
			return nil, nil, err
		}
		log.Info("etcd runs inside this process; others join by -etcd and the same -data", "etcd", endpoint, "data", dir)
		c.etcd.endpoints, stop = []string{endpoint}, shut
	}
	client, err := c.etcd.dial()
	if err != nil {
		stop()
		return nil, nil, err
	}
	kv := etcdkv.New(client)
	return kv, func() {
		_ = kv.Close()
		_ = client.Close() // nothing runs any more that could fail
		stop()
	}, nil
}

// dial connects in the background: a node waits for its store.
func (c etcdConfig) dial() (*clientv3.Client, error) {
	secure, err := c.tls()
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.endpoints, TLS: secure, Username: c.user, Password: c.password,
		DialTimeout:       5 * time.Second,                                         // of asking for a token, with a user
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second, // a connection that drops its packets is noticed
		Logger: zap.NewNop(), // what matters the node says
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %v: %w", c.endpoints, err)
	}
	return client, nil
}

// tls is nil if the endpoints speak plain text.
func (c etcdConfig) tls() (*tls.Config, error) {
	secure := false
	for _, e := range c.endpoints {
		secure = secure || strings.HasPrefix(e, "https://")
	}
	if !secure {
		if c.ca != "" || c.cert != "" {
			return nil, errors.New("-etcd-ca and -etcd-cert are for endpoints that begin with https://")
		}
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, fmt.Errorf("-etcd-ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("-etcd-ca: no certificate in %s", c.ca)
		}
	}
	if c.cert != "" {
		if _, err := tls.LoadX509KeyPair(c.cert, c.key); err != nil {
			return nil, fmt.Errorf("-etcd-cert: %w", err)
		}
		// Certificates are renewed while the process runs.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.cert, c.key)
			return &pair, err
		}
	}
	return conf, nil
}
