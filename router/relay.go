package router

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// flushWithin is how long a part of an answer of known length waits for the next. The proxy passes on at once what it can't know
// the end of: server-sent events, answers without a length. Others would cost a second packet for the head alone.
const flushWithin = time.Millisecond

// relay sends r on and streams the answer back. With an error nothing was answered.
func (t *trip) relay(w http.ResponseWriter, r *http.Request) error {
	var failed error
	to := &relayWriter{ResponseWriter: w, header: make(http.Header)}
	if r.Header.Get("Upgrade") != "" {
		// One side may be stuck in a write to the other: to end it, both are closed.
		ctx, closeOwner := context.WithCancel(r.Context())
		defer closeOwner()
		r = r.WithContext(ctx)
		ended := func() {}
		defer func() { ended() }()
		to.upgraded = func(client net.Conn) {
			ended = upgradesOf(ctx).add(func() {
				closeOwner()
				_ = client.Close()
			})
		}
	}
	proxy := httputil.ReverseProxy{
		Rewrite:        t.h.rewrite,
		Transport:      t,
		FlushInterval:  flushWithin,
		BufferPool:     &t.h.pool,
		ErrorLog:       t.h.errorLog,
		ModifyResponse: func(res *http.Response) error { t.prepare(w, res); return nil },
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	proxy.ServeHTTP(to, r)
	if failed == nil || errors.Is(failed, errHere) {
		return failed
	}
	if to.hijacked {
		t.h.errorLog.Printf("upgraded connection ended: %v", failed)
		return nil
	}
	if _, ok := errors.AsType[interface {
		error
		Outcome() cas.Outcome
	}](failed); !ok {
		// The proxy's own: an upgrade that can't be done.
		if t.tries == 0 {
			return &upgradeError{failed}
		}
		return &ForwardError{Shard: t.shard, Sent: true, Err: failed}
	}
	return failed
}

// forwarding are the headers that the proxy takes away, for fear that the client made them up. Whether to
// believe them is for the handler to say, on the second hop as on the first.
var forwarding = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request to the owner the one that came here: the path as it was before any prefix
// was stripped, the query as it was, and the headers with X-Forwarded-For grown by the client.
func (h *HTTP) rewrite(p *httputil.ProxyRequest) {
	in, out := p.In, p.Out
	if u, err := url.ParseRequestURI(in.RequestURI); err == nil {
		out.URL = u
	} else {
		out.URL.RawQuery = in.URL.RawQuery
	}
	out.URL.Scheme = h.conf.Scheme

	out.Header["X-Forwarded-For"] = in.Header["X-Forwarded-For"]
	p.SetXForwarded()
	for _, name := range forwarding {
		if v, ok := in.Header[name]; ok && name != "X-Forwarded-For" {
			out.Header[name] = v
		}
	}
	out.Trailer = in.Trailer // not a copy: it is filled when the body has been read
	carry(out.Header)
}

// prepare readies the owner's answer for the client.
func (t *trip) prepare(w http.ResponseWriter, res *http.Response) {
	for name := range res.Header {
		if strings.HasPrefix(name, ownPrefix) && name != outcomeHeader {
			delete(res.Header, name)
		}
	}
	if t.body.streams {
		// The owner may answer while it still reads. Not supported is fine: then the server ends the
		// body before the answer begins, as it would for a handler here.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
}

// relayWriter keeps from the client the owner's "100 Continue": one who expects it gets it from this server when the body is
// read, which is when the owner asks for it, or has kept the hop waiting for too long; and who did not, gets none. And it keeps
// from the proxy the headers that handlers around this one have set: it empties what it gets as Header after each
// answer below 200.
type relayWriter struct {
	http.ResponseWriter
	header   http.Header // the proxy's until begun
	begun    bool        // the answer proper: from now on headers are trailers
	hijacked bool
	upgraded func(client net.Conn) // nil: not asked for
}

func (w *relayWriter) Header() http.Header {
	if w.begun {
		return w.ResponseWriter.Header()
	}
	return w.header
}

func (w *relayWriter) WriteHeader(status int) {
	switch {
	case status == http.StatusContinue:
	case status < 200 && status != http.StatusSwitchingProtocols:
		all := w.ResponseWriter.Header()
		mine := all.Clone()
		add(all, w.header)
		w.ResponseWriter.WriteHeader(status)
		clear(all)
		maps.Copy(all, mine)
	default:
		w.begin()
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *relayWriter) begin() {
	if !w.begun {
		w.begun = true
		add(w.ResponseWriter.Header(), w.header)
	}
}

func add(to, from http.Header) {
	for name, values := range from {
		to[name] = append(to[name], values...)
	}
}

// Unwrap is for http.ResponseController.
func (w *relayWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack notes that nothing can be answered any more. The proxy takes Header for its 101.
func (w *relayWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	w.begin()
	if w.upgraded != nil {
		w.upgraded(conn)
	}
	return conn, rw, nil
}
