package router

import (
	"crypto/x509"
	"net/http"
)

// PeerByCert is an HTTPConfig.Peer that believes a sender whose client certificate was verified, and for which ok is true. ok
// must tell nodes from clients where both have certificates of one authority: by a name that only nodes' have. A nil ok
// believes nobody.
//
// Verified means that the server has done so: its tls.Config has ClientCAs, and ClientAuth is tls.RequireAndVerifyClientCert, or
// tls.VerifyClientCertIfGiven where clients have none. A certificate that was merely sent counts for nothing. The
// sending side is a NewTransport with a TLSClientConfig that has Certificates and RootCAs, and a ServerName if the nodes'
// certificates don't have the addresses that are dialed, which with pods is the rule; and HTTPConfig.Scheme "https".
//
// With TLS 1.3 a node whose own certificate is refused, since it has expired say, hears so after it has sent: what it forwards is
// then answered as uncertain, although it was not applied.
//
// It sees the connection to this server: where a proxy or mesh in front ends TLS, certificates are its affair.
func PeerByCert(ok func(*x509.Certificate) bool) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return ok != nil && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && ok(r.TLS.VerifiedChains[0][0])
	}
}
