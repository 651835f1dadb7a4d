package main

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// wire dials connections that can be cut, as a switch cuts them: nothing comes, nothing goes, and nobody is told.
type wire struct{ cut atomic.Bool }

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for w.cut.Load() {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(glance):
		}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, wire: w}, nil
}

// glance is how often somebody who waits on a cut wire looks whether it still is.
const glance = 20 * time.Millisecond

type conn struct {
	net.Conn
	wire        *wire
	closed      atomic.Bool
	read, write atomic.Int64 // deadlines, in Unix nanoseconds; 0: none
}

// hold waits while the wire is cut.
func (c *conn) hold(deadline *atomic.Int64) error {
	for c.wire.cut.Load() {
		if at := deadline.Load(); at != 0 && time.Now().UnixNano() > at {
			return os.ErrDeadlineExceeded
		}
		if c.closed.Load() {
			return net.ErrClosed
		}
		time.Sleep(glance)
	}
	return nil
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if herr := c.hold(&c.read); herr != nil {
		return 0, herr
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if err := c.hold(&c.write); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *conn) SetDeadline(t time.Time) error {
	note(&c.read, t)
	note(&c.write, t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	note(&c.read, t)
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	note(&c.write, t)
	return c.Conn.SetWriteDeadline(t)
}

func note(deadline *atomic.Int64, t time.Time) {
	if t.IsZero() {
		deadline.Store(0)
		return
	}
	deadline.Store(t.UnixNano())
}
