package etcdtest

import (
	"net"
	"sync"
	"testing"
)

// Proxy forwards TCP connections to a target, and loses what it is told to lose. Safe for
// concurrent use. It is stopped, with all its goroutines, when the test ends.
type Proxy struct {
	Addr   string
	target string
	listen net.Listener
	wg     sync.WaitGroup

	mu      sync.Mutex // guards the rest
	changed *sync.Cond // broadcast when the rest changes
	conns   map[net.Conn]struct{}
	cut     bool
	refuse  bool
	closed  bool
	request func(n int) bool // nil: lose none
	reply   func(n int) bool
}

// NewProxy returns a proxy for target, a host and port.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("etcdtest: proxy: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listen: l, conns: make(map[net.Conn]struct{})}
	p.changed = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Cut holds all bytes back, in both directions, until it is called with false.
func (p *Proxy) Cut(cut bool) { p.set(func() { p.cut = cut }) }

// Refuse closes each new connection at once; with true it closes those that are open as well.
func (p *Proxy) Refuse(refuse bool) {
	p.set(func() { p.refuse = refuse })
	if refuse {
		p.Break()
	}
}

// LoseRequest breaks all connections when a client sends bytes of which when says so, given
// their number; those bytes are lost. It does so once. New connections work.
func (p *Proxy) LoseRequest(when func(n int) bool) { p.set(func() { p.request = when }) }

// LoseReply is LoseRequest for what the server sends.
func (p *Proxy) LoseReply(when func(n int) bool) { p.set(func() { p.reply = when }) }

// Break closes all connections. New connections work.
func (p *Proxy) Break() {
	p.set(func() {
		for c := range p.conns {
			_ = c.Close()
			delete(p.conns, c)
		}
	})
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.changed.Broadcast()
}

func (p *Proxy) close() {
	p.set(func() {
		p.closed = true
		for c := range p.conns {
			_ = c.Close()
		}
	})
	_ = p.listen.Close()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		if !p.pass() {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			continue
		}
		p.wg.Go(func() { p.pump(client, server, &p.request) })
		p.wg.Go(func() { p.pump(server, client, &p.reply) })
	}
}

// pass reports whether a new connection is let through.
func (p *Proxy) pass() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.refuse && !p.closed
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed || p.refuse {
			_ = c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.closed && !p.refuse
}

// pump copies one direction until either end is closed. lose is p.request or p.reply.
func (p *Proxy) pump(from, to net.Conn, lose *func(int) bool) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
		p.set(func() {
			delete(p.conns, from)
			delete(p.conns, to)
		})
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !p.through(from) {
			return
		}
		p.mu.Lock()
		when := *lose
		p.mu.Unlock()
		if when != nil && when(n) {
			p.set(func() { *lose = nil })
			p.Break()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// through waits while the proxy is cut, and reports whether the connection still stands.
func (p *Proxy) through(from net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut && !p.closed && p.stands(from) {
		p.changed.Wait()
	}
	return !p.closed && p.stands(from)
}

// stands needs p.mu.
func (p *Proxy) stands(c net.Conn) bool {
	_, ok := p.conns[c]
	return ok
}
