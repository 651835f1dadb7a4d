package sqlcas

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// What a cutter does to a COMMIT.
type cut int

const (
	pass        cut = iota
	loseRequest     // both ends are closed; the server never sees it
	loseReply       // the server gets it, and its reply is lost
	delay           // the client's end is closed, and the server gets it when it is let through
)

// cutter forwards connections to a server, and breaks them at a COMMIT. Safe for concurrent use.
type cutter struct {
	addr, server string
	listen       net.Listener
	wg           sync.WaitGroup

	mu      sync.Mutex // guards the rest
	next    func() cut // for each COMMIT
	late    []func(arrives bool)
	delayed chan struct{} // receives for each that is delayed
	conns   map[net.Conn]bool
	closed  bool
}

// newCutter asks next at each COMMIT what to do with it.
func newCutter(t *testing.T, server string, next func() cut) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{
		addr: l.Addr().String(), server: server, listen: l, next: next,
		delayed: make(chan struct{}, 16), conns: make(map[net.Conn]bool),
	}
	c.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() {
		c.letThrough(false)
		_ = l.Close()
		c.mu.Lock()
		c.closed = true
		for conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

// letThrough sends the COMMITs that are delayed to the server, or has it lose them.
func (c *cutter) letThrough(arrives bool) {
	c.mu.Lock()
	late := c.late
	c.late = nil
	c.mu.Unlock()
	for _, do := range late {
		do(arrives)
	}
}

func (c *cutter) keep(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = true
	if c.closed {
		_ = conn.Close()
	}
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	c.keep(client)
	c.keep(server)
	var mu sync.Mutex // guards mute
	mute := false
	replies := make(chan struct{})
	go func() {
		defer close(replies)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			mu.Lock()
			stop := mute
			mu.Unlock()
			if err != nil || stop { // the reply to a COMMIT has come this far, so it was applied
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	defer func() { _ = server.Close(); _ = client.Close(); <-replies }()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		what := pass
		if isCommit(buf[:n]) {
			c.mu.Lock()
			what = c.next()
			c.mu.Unlock()
		}
		if what != pass {
			mu.Lock()
			mute = true
			mu.Unlock()
		}
		switch what {
		case loseRequest:
			return
		case delay:
			if !c.hold(client) {
				return
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if what != pass {
			<-replies
			return
		}
	}
}

// hold closes the client's end, and returns whether the COMMIT is to arrive, once that is decided.
func (c *cutter) hold(client net.Conn) bool {
	decided := make(chan bool, 1)
	c.mu.Lock()
	c.late = append(c.late, func(arrives bool) { decided <- arrives })
	c.mu.Unlock()
	_ = client.Close()
	c.delayed <- struct{}{}
	return <-decided
}

func isCommit(b []byte) bool {
	b = bytes.ToLower(b)
	return bytes.Contains(b, []byte("commit")) && !bytes.Contains(b, []byte("autocommit"))
}

// first does what to the first COMMIT, and lets the others pass.
func first(what cut) func() cut {
	return func() cut {
		now := what
		what = pass
		return now
	}
}
