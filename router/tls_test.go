package router

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/shard"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, pool: x509.NewCertPool()}
	c := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.cert, a.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// sign returns c signed, by itself if there is no authority yet.
func (a *authority) sign(c *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := c, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) named(name string) tls.Certificate {
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

const nodeName = "node.bank.internal"

func isNode(c *x509.Certificate) bool { return c.VerifyHostname(nodeName) == nil }

// secure is a node's server and transport, each with cert.
func (g *group) secure(t *testing.T, id string, n *fakeNode, ca *authority, cert tls.Certificate, auth tls.ClientAuthType, next http.HandlerFunc) *peer {
	t.Helper()
	table, _ := g.open()
	tr := newTestTransport(t)
	tr.TLSClientConfig = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: ca.pool, ServerName: nodeName}
	n.id, n.group, n.wait = id, g.decl, 5*time.Second
	web, err := newHTTP(table, n, HTTPConfig{Transport: tr, Scheme: "https", Peer: PeerByCert(isNode), Tries: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(web.Handler(func(*http.Request) (string, error) { return "k", nil }, next))
	s.EnableHTTP2 = true // for clients: nodes speak HTTP/1.1 among each other, over which upgrades go
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: ca.pool, ClientAuth: auth}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail
	s.StartTLS()
	t.Cleanup(s.Close)
	p := &peer{Server: s, http: web, Member: shard.Member{ID: id, Address: strings.TrimPrefix(s.URL, "https://")}}
	g.join(p.Member)
	return p
}

// secureClient is a client with certs, which trusts ca.
func secureClient(t *testing.T, ca *authority, certs ...tls.Certificate) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool, ServerName: nodeName, Certificates: certs}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func get(t *testing.T, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(body))
}

func TestMutualTLSBetweenNodes(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	var ran atomic.Int64
	says := func(w http.ResponseWriter, r *http.Request) {
		ran.Add(1)
		fmt.Fprintf(w, "forwarded %v, as %s", Forwarded(r), r.TLS.PeerCertificates[0].Subject.CommonName)
	}
	g := newGroup(t, 1)
	g.secure(t, "b", &fakeNode{}, ca, ca.named(nodeName), tls.RequireAndVerifyClientCert, says)
	a := g.secure(t, "a", &fakeNode{enter: knowsNobody}, ca, ca.named(nodeName), tls.VerifyClientCertIfGiven, never(t, "a"))
	forged := g.secure(t, "forged", &fakeNode{enter: knowsNobody}, ca, other.named(nodeName), tls.NoClientCert, never(t, "forged"))
	g.claim("b", 0)
	a.shows(t, "b")
	forged.shows(t, "b")

	if status, body := get(t, secureClient(t, ca), request(t, "POST", a.URL+"/k", nil)); status != 200 || body != "forwarded true, as "+nodeName {
		t.Errorf("got %d %q, want b's answer to a node", status, body)
	}
	// TLS 1.3 tells the sender only after it has sent.
	status, body := get(t, secureClient(t, other), request(t, "POST", forged.URL+"/k", nil))
	if status != 500 || !strings.Contains(body, "uncertain") || ran.Load() != 1 {
		t.Errorf("through a node whose certificate is of another authority: got %d %q, and %d runs in all; want 500, uncertain, and 1", status, body, ran.Load())
	}
}

// A stranger at the owner's address has no certificate for the name, and hears nothing of the request.
func TestOwnersCertificateIsVerified(t *testing.T) {
	ca := newAuthority(t)
	g := newGroup(t, 1)
	for name, cert := range map[string]tls.Certificate{
		"of another authority": newAuthority(t).named(nodeName),
		"of another name":      ca.named("web.bank.internal"),
	} {
		g.secure(t, "b", &fakeNode{}, ca, cert, tls.NoClientCert, never(t, name))
		a := g.secure(t, "a", &fakeNode{enter: knowsNobody}, ca, ca.named(nodeName), tls.NoClientCert, never(t, "a"))
		g.claim("b", 0)
		a.shows(t, "b")
		c := secureClient(t, ca)
		status, body := get(t, c, request(t, "POST", a.URL+"/k", strings.NewReader("secret")))
		if status != 503 || !strings.Contains(body, "not applied") {
			t.Errorf("%s: got %d %q, want 503, not applied", name, status, body)
		}
	}
}

// Who has no node's certificate is a client, whatever headers it sends: forwarded, not refused.
func TestPeerByCert(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	g := newGroup(t, 1)
	g.secure(t, "b", &fakeNode{}, ca, ca.named(nodeName), tls.RequireAndVerifyClientCert, says("b"))
	verifies := g.secure(t, "a", &fakeNode{enter: knowsNobody}, ca, ca.named(nodeName), tls.VerifyClientCertIfGiven, never(t, "a"))
	takesAny := g.secure(t, "c", &fakeNode{enter: knowsNobody}, ca, ca.named(nodeName), tls.RequestClientCert, never(t, "c"))
	g.claim("b", 0)
	verifies.shows(t, "b")
	takesAny.shows(t, "b")
	for _, c := range []struct {
		name   string
		to     *peer
		certs  []tls.Certificate
		status int
	}{
		{"a node", verifies, []tls.Certificate{ca.named(nodeName)}, 421},
		{"no certificate", verifies, nil, 200},
		{"another name", verifies, []tls.Certificate{ca.named("app.bank.internal")}, 200},
		{"a node's, not verified", takesAny, []tls.Certificate{ca.named(nodeName)}, 200},
		{"a node's of another authority, not verified", takesAny, []tls.Certificate{other.named(nodeName)}, 200},
	} {
		r := request(t, "POST", c.to.URL+"/k", nil)
		r.Header.Set("Tenure-Hop", "abc")
		r.Header.Set("Tenure-Group", "g1")
		if status, body := get(t, secureClient(t, ca, c.certs...), r); status != c.status {
			t.Errorf("%s: got %d %q, want %d", c.name, status, body, c.status)
		}
	}
	plain := httptest.NewRequest("GET", "/", nil)
	if PeerByCert(isNode)(plain) || PeerByCert(nil)(plain) {
		t.Error("a connection without TLS is believed")
	}
	plain.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{ca.cert}}}
	if PeerByCert(nil)(plain) {
		t.Error("without a check somebody is believed")
	}
}

// An upgraded connection goes over TLS too, on both sides.
func TestUpgradeOverTLS(t *testing.T) {
	ca := newAuthority(t)
	g := newGroup(t, 1)
	g.secure(t, "b", &fakeNode{}, ca, ca.named(nodeName), tls.RequireAndVerifyClientCert, echo(t))
	a := g.secure(t, "a", &fakeNode{enter: knowsNobody}, ca, ca.named(nodeName), tls.NoClientCert, never(t, "a"))
	g.claim("b", 0)
	a.shows(t, "b")
	conn, err := tls.Dial("tcp", a.Address, &tls.Config{RootCAs: ca.pool, ServerName: nodeName})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	speak(t, conn)
}

// speak upgrades conn to echo and hears itself.
func speak(t *testing.T, conn net.Conn) {
	t.Helper()
	in, res := askUpgrade(t, conn, "echo")
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %s, want 101", res.Status)
	}
	io.WriteString(conn, "ping\n")
	if line, err := in.ReadString('\n'); line != "ping\n" {
		t.Errorf("got %q %v, want ping", line, err)
	}
}
