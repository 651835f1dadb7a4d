package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// wire carries TCP connections to a target, and falls silent when it is cut: it goes on to take connections
// and bytes, as far as kernels buffer them, and nobody is told that they don't arrive. Safe for concurrent use.
type wire struct {
	address string
	listen  net.Listener
	running sync.WaitGroup

	mu      sync.Mutex // guards the rest
	changed *sync.Cond // broadcast when the rest changes
	target  string     // "": nobody is there
	conns   map[net.Conn]struct{}
	cut     direction
	closed  bool
}

// direction is what a cut loses.
type direction uint8

const (
	requests direction = 1 << iota // from the side that connects
	replies
	both = requests | replies
)

// newWire listens on a free port of the loopback interface. Close it.
func newWire(target string) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	w := &wire{address: l.Addr().String(), listen: l, target: target, conns: make(map[net.Conn]struct{})}
	w.changed = sync.NewCond(&w.mu)
	w.running.Go(w.accept)
	return w, nil
}

// lead sends new connections to target.
func (w *wire) lead(target string) { w.set(func() { w.target = target }) }

// sever makes one or both directions silent.
func (w *wire) sever(d direction) { w.set(func() { w.cut = d }) }

// heal ends that. What was sent meanwhile is delivered now, however late, unless lose: then the connections break
// and it is gone.
func (w *wire) heal(lose bool) {
	w.set(func() {
		if lose && w.cut != 0 {
			w.drop()
		}
		w.cut = 0
	})
}

// drop breaks all connections. Call it in set.
func (w *wire) drop() {
	for c := range w.conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

func (w *wire) close() {
	_ = w.listen.Close()
	w.set(func() {
		w.closed = true
		w.drop()
	})
	w.running.Wait()
}

func (w *wire) set(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.changed.Broadcast()
}

func (w *wire) accept() {
	for {
		c, err := w.listen.Accept()
		if err != nil {
			return
		}
		w.running.Go(func() { w.carry(c) })
	}
}

// carry joins a connection to a new one to the target.
func (w *wire) carry(client net.Conn) {
	defer client.Close()
	if !w.keep(client) || !w.through(client, requests) {
		return
	}
	w.mu.Lock()
	target := w.target
	w.mu.Unlock()
	if target == "" {
		w.forget(client)
		return
	}
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil || !w.keep(server) {
		w.forget(client)
		return
	}
	defer server.Close()
	var back sync.WaitGroup
	back.Go(func() { w.pump(server, client, replies) })
	w.pump(client, server, requests)
	back.Wait()
}

// keep takes note of c, or closes it if the wire is closed.
func (w *wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = c.Close()
		return false
	}
	w.conns[c] = struct{}{}
	return true
}

func (w *wire) forget(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

// pump copies one direction until either end is closed. The end of a stream is held back like its bytes.
func (w *wire) pump(from, to net.Conn, d direction) {
	defer w.forget(from, to)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !w.through(from, d) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// through waits while that direction is cut, and reports whether the connection still stands.
func (w *wire) through(c net.Conn, d direction) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if _, stands := w.conns[c]; !stands || w.closed {
			return false
		}
		if w.cut&d == 0 {
			return true
		}
		w.changed.Wait()
	}
}
