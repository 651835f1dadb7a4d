package fencetest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

// testLostCommit breaks the connection at the commit: before the server gets it, or before its
// reply is back. The client can't tell one from the other, so it must call both uncertain.
func testLostCommit(t *testing.T, s Server) {
	if s.Via == nil {
		t.Skip("no network in between")
	}
	for _, test := range []struct {
		name    string
		forward bool
		want    int
	}{
		{"request lost", false, 0},
		{"reply lost", true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := newFixture(t, s, fence.SQLConfig{})
			x.seal(t, token(5))
			p := startProxy(t, s.Addr, test.forward)
			db := s.Via(t, p.addr())
			t.Cleanup(func() { _ = db.Close() })
			f := x.open(t, db)
			err := x.depositTx(t.Context(), f, token(5), 1, 1)
			wantIs(t, err, cas.ErrUncertain)
			if got := cas.OutcomeOf(err); got != cas.Uncertain {
				t.Errorf("outcome: got %s, want uncertain", got)
			}
			// The seal waits for whatever of it is still under way at the server.
			x.seal(t, token(6))
			x.wantBalance(t, 1, test.want)
		})
	}
}

// proxy forwards connections until it sees a COMMIT. Then that connection ends.
type proxy struct {
	l       net.Listener
	server  string
	forward bool // the COMMIT itself, but not its reply
	wg      sync.WaitGroup
	mu      sync.Mutex // guards conns
	conns   []net.Conn
}

func startProxy(t *testing.T, server string, forward bool) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, server: server, forward: forward}
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(t, client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		conns := p.conns
		p.mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) serve(t *testing.T, client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		t.Errorf("proxy: %v", err)
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()

	replies := make(chan struct{})
	var cut sync.Mutex // guards lost
	lost := false
	go func() {
		defer close(replies)
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			cut.Lock()
			drop := lost
			cut.Unlock()
			if err != nil || drop {
				return // the reply to the COMMIT has come this far, so it was applied
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
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				t.Logf("proxy: %v", err)
			}
			break
		}
		commit := bytes.Contains(bytes.ToLower(buf[:n]), []byte("commit")) &&
			!bytes.Contains(bytes.ToLower(buf[:n]), []byte("autocommit"))
		if commit {
			cut.Lock()
			lost = true
			cut.Unlock()
			if !p.forward {
				break
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			break
		}
		if commit {
			<-replies
			break
		}
	}
	_ = client.Close()
	_ = server.Close()
	<-replies
}
