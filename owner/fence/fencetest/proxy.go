package fencetest

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// proxy forwards connections, until it has seen a number of parcels from the clients: what they send at
// once. Then it ends that connection, this one time.
type proxy struct {
	l       net.Listener
	server  string
	forward bool         // that parcel too, but not the reply
	left    atomic.Int64 // parcels
	cut     atomic.Bool  // it came to that

	wg    sync.WaitGroup
	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func startProxy(server string, parcels int, forward bool) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fencetest: proxy: %w", err)
	}
	p := &proxy{l: l, server: server, forward: forward}
	p.left.Store(int64(parcels))
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
	return p, nil
}

func (p *proxy) addr() string { return p.l.Addr().String() }

// close ends all that is left, and waits for it.
func (p *proxy) close() {
	_ = p.l.Close()
	p.mu.Lock()
	conns := p.conns
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	p.wg.Wait()
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return // the client finds its connection closed
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()

	var lost atomic.Bool
	replies := make(chan struct{})
	go func() {
		defer close(replies)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || lost.Load() {
				return // a reply has come this far, so what it answers was done
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		if p.left.Add(-1) == 0 {
			p.cut.Store(true)
			if !p.forward {
				break
			}
			// What follows goes on to the server until it answers: some parcels have no reply (the closing of a statement in
			// MySQL's protocol), and then the client has not waited for one either.
			lost.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			break
		}
	}
	_ = client.Close()
	_ = server.Close()
	<-replies
}
