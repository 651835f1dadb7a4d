package grpcrouter_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

// certificate is one for name on loopback, which signs itself.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, c
}

// Nodes know each other by certificate, and whoever else claims to be one is a client.
func TestMutualTLS(t *testing.T) {
	node, nodeCert := certificate(t, "node")
	teller, tellerCert := certificate(t, "teller")
	trust := x509.NewCertPool()
	trust.AddCert(nodeCert)
	trust.AddCert(tellerCert)
	as := func(c tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{c}, RootCAs: trust, ClientCAs: trust, ClientAuth: tls.RequireAndVerifyClientCert,
		})
	}
	var asked atomic.Int64
	isNode := func(ctx context.Context) bool {
		asked.Add(1)
		p, _ := peer.FromContext(ctx)
		info, ok := p.AuthInfo.(credentials.TLSInfo)
		return ok && info.State.PeerCertificates[0].Subject.CommonName == "node"
	}
	n := start(t, setup{
		client: grpcrouter.Config{Dial: []grpc.DialOption{grpc.WithTransportCredentials(as(node))}, Peer: isNode},
		server: []grpc.ServerOption{grpc.Creds(as(node))},
	})
	ways := map[string]grpc.ClientConnInterface{
		"client":              n.client(byKey, grpcrouter.Config{Dial: []grpc.DialOption{grpc.WithTransportCredentials(as(node))}}),
		"forwarded":           n.plain(n.other("alice"), grpc.WithTransportCredentials(as(teller))),
		"a Client of tellers": n.client(byKey, grpcrouter.Config{Dial: []grpc.DialOption{grpc.WithTransportCredentials(as(teller))}}),
	}
	for way, conn := range ways {
		for kind, call := range kinds {
			if _, err := call(t.Context(), echopb.NewEchoClient(conn), "alice"); err != nil {
				t.Errorf("%s %s: %v", way, kind, err)
			}
		}
	}
	if asked.Load() == 0 {
		t.Error("nobody was asked whether the sender is a node")
	}
}
