package idem

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy forwards connections, and ends the one on which the next COMMIT comes once it is armed.
type proxy struct {
	l       net.Listener
	server  string
	applied bool // the COMMIT goes on, and its reply is lost
	armed   atomic.Bool
	wg      sync.WaitGroup
	mu      sync.Mutex // guards conns
	conns   []net.Conn
}

func startProxy(t testing.TB, server string, applied bool) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, server: server, applied: applied}
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var lost atomic.Bool
	replies := make(chan struct{})
	go func() {
		defer close(replies)
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || lost.Load() {
				return // the reply to the COMMIT has come this far, so it was applied
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	defer func() { <-replies }()
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		text := bytes.ToLower(buf[:n])
		// The statement alone: at its end Postgres's protocol has a zero, and MariaDB's nothing.
		commit := (bytes.Contains(text, []byte("commit\x00")) || bytes.HasSuffix(text, []byte("\x03commit"))) && p.armed.CompareAndSwap(true, false)
		if commit {
			lost.Store(true)
			if !p.applied {
				return
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if commit {
			<-replies
			return
		}
	}
}
