package idem

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/felixge/httpsnoop"
)

// capture holds a handler's answer back until it has been recorded. It goes live, and lets the answer
// through as it comes, when the handler flushes or hijacks, or when the answer grows too large.
type capture struct {
	w     http.ResponseWriter // the client's
	most  int
	clean http.Header // what was set before the handler ran

	status  int         // 0: the handler has not said yet
	header  http.Header // as it was when the handler said
	body    []byte
	live    bool // the client gets it as it comes
	dropped bool // body is not all of it
}

func newCapture(w http.ResponseWriter, most int) *capture {
	c := &capture{w: w, most: most}
	if h := w.Header(); len(h) > 0 {
		c.clean = h.Clone()
	}
	return c
}

// writer is what the handler writes to. It has the optional interfaces that the client's has.
func (c *capture) writer() http.ResponseWriter {
	return httpsnoop.Wrap(c.w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) { c.writeHeader(next, status) }
		},
		Write: func(httpsnoop.WriteFunc) httpsnoop.WriteFunc { return c.write },
		WriteString: func(httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) { return c.write([]byte(s)) }
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) { return c.readFrom(next, src) }
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				if c.goLive() == nil {
					next()
				}
			}
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error {
				if err := c.goLive(); err != nil {
					return err
				}
				return next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					c.hijacked()
				}
				return conn, rw, err
			}
		},
	})
}

func (c *capture) writeHeader(next httpsnoop.WriteHeaderFunc, status int) {
	switch {
	case c.status != 0:
		if c.live {
			next(status) // superfluous, which the server tells
		}
	case status < 200 && status != http.StatusSwitchingProtocols, status > 999:
		next(status) // an interim answer is no answer, and an invalid one panics
	default:
		c.status, c.header = status, c.w.Header().Clone()
	}
}

func (c *capture) write(b []byte) (int, error) {
	if c.status == 0 {
		c.status, c.header = http.StatusOK, c.w.Header().Clone()
	}
	if !hasBody(c.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if err := c.keep(b); err != nil {
		return 0, err
	}
	if c.live {
		return c.w.Write(b)
	}
	return len(b), nil
}

// keep adds to what is kept, if it is not too much.
func (c *capture) keep(b []byte) error {
	if len(c.body)+len(b) > c.most && !c.dropped {
		if err := c.goLive(); err != nil {
			return err
		}
		c.dropped, c.body = true, nil
	}
	if !c.dropped {
		c.body = append(c.body, b...)
	}
	return nil
}

// readFrom reads as much as can be kept, and lets the client's writer have the rest, in its own way.
func (c *capture) readFrom(next httpsnoop.ReadFromFunc, src io.Reader) (int64, error) {
	n, err := io.Copy(writeFunc(c.write), io.LimitReader(src, int64(c.most-len(c.body))+1))
	if err != nil || !c.dropped {
		return n, err
	}
	m, err := next(src)
	return n + m, err
}

type writeFunc func([]byte) (int, error)

func (f writeFunc) Write(b []byte) (int, error) { return f(b) }

// goLive sends what has been held back.
func (c *capture) goLive() error {
	if c.live {
		return nil
	}
	c.live = true
	if c.status == 0 {
		c.status, c.header = http.StatusOK, c.w.Header().Clone()
	}
	trailers := c.restore()
	c.w.WriteHeader(c.status)
	var err error
	if len(c.body) > 0 {
		_, err = c.w.Write(c.body)
	}
	maps.Copy(c.w.Header(), trailers)
	return err
}

// hijacked: the handler has the connection, and what it sends there nobody sees.
func (c *capture) hijacked() {
	c.live, c.dropped, c.body = true, true, nil
	if c.status == 0 {
		c.status, c.header = http.StatusSwitchingProtocols, http.Header{}
	}
}

// finish is the handler's end.
func (c *capture) finish() {
	if c.status == 0 {
		c.status, c.header = http.StatusOK, c.w.Header().Clone()
	}
	if c.status == http.StatusSwitchingProtocols {
		c.status = http.StatusOK // it was hijacked, and nobody knows what was said
	}
}

// send is goLive for one that has been recorded. The client may have gone; then nobody is to be told.
func (c *capture) send() { _ = c.goLive() }

// restore sets the header back to what it was when the handler gave its status, and returns what was set
// since: only trailers may come later.
func (c *capture) restore() (trailers http.Header) {
	now := c.w.Header()
	for name, values := range now {
		if slices.Equal(values, c.header[name]) {
			continue
		}
		if strings.HasPrefix(name, http.TrailerPrefix) || c.declares(name) {
			if trailers == nil {
				trailers = make(http.Header)
			}
			trailers[name] = values
		}
		delete(now, name)
	}
	for name, values := range c.header {
		if _, ok := now[name]; !ok {
			now[name] = values
		}
	}
	return trailers
}

// declares reports whether the answer has announced a trailer of that name.
func (c *capture) declares(trailer string) bool {
	for name := range strings.SplitSeq(strings.Join(c.header["Trailer"], ","), ",") {
		if http.CanonicalHeaderKey(strings.TrimSpace(name)) == trailer {
			return true
		}
	}
	return false
}

// discard forgets the answer, and what the handler has set for it.
func (c *capture) discard() {
	h := c.w.Header()
	clear(h)
	maps.Copy(h, c.clean)
}

// hasBody reports whether an answer of that status may have a body.
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
