package router

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// body is a request's body as often as attempts need it: from memory if it is short, else
// as it comes from the client, once.
type body struct {
	streams bool
	buf     []byte // the whole body, unless it streams
	last    *turn  // the attempt that has the stream
}

// readBody takes r's body into memory if its length is known and at most limit. An error is a
// *bodyError; nothing was sent yet.
func readBody(r *http.Request, limit int64) (*body, error) {
	switch {
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
		return &body{}, nil
	case r.ContentLength < 0 || r.ContentLength > limit:
		return &body{streams: true}, nil
	}
	// To its end, not just to its length: trailers come with the end.
	buf := make([]byte, r.ContentLength+1)
	n, err := io.ReadFull(r.Body, buf)
	switch {
	case err == nil:
		return nil, &bodyError{errLonger}
	case int64(n) < r.ContentLength || !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &bodyError{err}
	}
	return &body{buf: buf[:n]}, nil
}

// reader is a body for a handler in this process.
func (b *body) reader(r *http.Request) io.ReadCloser {
	if len(b.buf) == 0 {
		return r.Body
	}
	return io.NopCloser(bytes.NewReader(b.buf))
}

// attach gives req the body; of one that streams, req.Body is the source. A GetBody, with which the transport
// would replay the request by itself, is taken away: servers set none, but middleware may have.
func (b *body) attach(req *http.Request) {
	req.GetBody = nil
	req.Header.Del("Expect")
	switch {
	case b.streams:
		b.last = &turn{src: req.Body}
		req.Body = b.last
		req.Header.Set("Expect", "100-continue")
		if len(req.Trailer) > 0 {
			req.ContentLength = -1 // only a chunked body has trailers
		}
	case len(b.buf) > 0:
		req.ContentLength = int64(len(b.buf))
		if len(req.Trailer) > 0 {
			req.ContentLength = -1
		}
		req.Body = io.NopCloser(bytes.NewReader(b.buf))
	default:
		req.ContentLength = 0
		req.Body = http.NoBody
		switch req.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			// By method alone these count as safe to replay, unless they have a body. The
			// transport finds this one empty and sends none.
			req.Body = io.NopCloser(eof{})
		}
	}
}

// reclaim takes the body back from the attempt that had it, and reports whether all of it is there
// for another. The transport may go on using a body after RoundTrip has returned; from
// now on it gets an error.
func (b *body) reclaim() bool { return b.last == nil || b.last.state.CompareAndSwap(fresh, revoked) }

// turn lends src to one attempt, for good with the first read.
type turn struct {
	src   io.Reader
	state atomic.Int32
}

const (
	fresh int32 = iota
	spent
	revoked
)

var errLonger = errors.New("longer than its Content-Length")

var errRevoked = errors.New("router: body was taken back")

func (t *turn) Read(p []byte) (int, error) {
	if !t.state.CompareAndSwap(fresh, spent) && t.state.Load() == revoked {
		return 0, errRevoked
	}
	return t.src.Read(p)
}

// Close leaves src to the server: the transport closes bodies also of attempts that failed before
// they sent anything.
func (t *turn) Close() error { return nil }

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
