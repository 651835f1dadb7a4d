package router

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// NewTransport is what HTTPConfig.Transport defaults to, to be changed before first use: give it a
// TLSClientConfig for mTLS, say. It asks no proxy, speaks HTTP/1.1 (over which requests can be upgraded, for
// WebSockets), leaves the encoding of bodies alone, and keeps many connections to each peer.
//
// The timeout of "Expect: 100-continue" is a minute: it must be above the WaitTimeout of every node, or
// bodies are sent before their request is admitted. Nodes answer well before, one way or the other.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 256,
		// Below the IdleTimeout that servers usually have: a request sent just as the peer closes an idle
		// connection has an uncertain outcome.
		IdleConnTimeout:       30 * time.Second,
		ExpectContinueTimeout: time.Minute,
		Protocols:             protocols,
	}
}

// buffers lends httputil.ReverseProxy what it copies answers with.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(buf []byte) { b.pool.Put((*[bufferSize]byte)(buf)) }
