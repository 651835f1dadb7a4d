package router

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// echo is a handler that upgrades and says back what it hears.
func echo(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			t.Errorf("Upgrade: got %q, want echo", r.Header.Get("Upgrade"))
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		io.Copy(conn, rw)
	}
}

// upgrade connects to addr, asks for protocol and returns the connection and the answer.
func upgrade(t *testing.T, addr, protocol string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	in, res := askUpgrade(t, conn, protocol)
	return conn, in, res
}

// askUpgrade is upgrade on a connection that is there.
func askUpgrade(t *testing.T, conn net.Conn, protocol string) (*bufio.Reader, *http.Response) {
	t.Helper()
	io.WriteString(conn, "GET /k HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in, res
}

func TestUpgradedConnection(t *testing.T) {
	gw := away(t, HTTPConfig{}, echo(t))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r1")
		gw.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	conn, in, res := upgrade(t, front.Listener.Addr().String(), "echo")
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("X-Request-Id") != "r1" {
		t.Fatalf("got %s %v, want 101 with the X-Request-Id set in front", res.Status, res.Header)
	}
	for range 2 {
		io.WriteString(conn, "ping\n")
		if line, err := in.ReadString('\n'); line != "ping\n" {
			t.Fatalf("got %q %v, want ping", line, err)
		}
	}
}

// The client's fault, and no use to try again.
func TestUpgradeToNoNameIsBad(t *testing.T) {
	gw := away(t, HTTPConfig{}, never(t, "b"))
	_, _, res := upgrade(t, gw.Address, "\xc3\xa9")
	if res.StatusCode != 400 || res.Header.Get("Retry-After") != "" {
		t.Errorf("got %s %v, want 400", res.Status, res.Header)
	}
}

// goneWriter's client has gone when it is to hear of the upgrade.
type goneWriter struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (w goneWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}

// Once the connection is taken over there is nowhere to answer an error to.
func TestUpgradeThatFailsLateIsNotAnswered(t *testing.T) {
	gw := away(t, HTTPConfig{Error: func(_ http.ResponseWriter, _ *http.Request, err error) {
		t.Errorf("answered with %v, want no answer", err)
	}}, echo(t))
	client, server := net.Pipe()
	client.Close()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/k", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	gw.Config.Handler.ServeHTTP(goneWriter{httptest.NewRecorder(), server}, r)
}

// What was upgraded does not outlive Serve, and does not hold it up, whoever is stuck.
func TestServeEndsUpgrades(t *testing.T) {
	stuck, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	for _, c := range []struct {
		name   string
		owner  func(conn net.Conn)
		client func(conn net.Conn)
	}{
		{"idle", func(conn net.Conn) { io.Copy(conn, conn) }, func(net.Conn) {}},
		{"client does not read", func(conn net.Conn) { fill(conn); close(stuck); <-over }, func(net.Conn) { <-stuck }},
		{"owner does not read", func(net.Conn) { <-over }, fill},
	} {
		t.Run(c.name, func(t *testing.T) { testServeEndsUpgrade(t, c.owner, c.client) })
	}
}

func testServeEndsUpgrade(t *testing.T, owner, client func(net.Conn)) {
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		owner(conn)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // Serve listens there again
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type mine struct{}
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Context().Value(mine{}) != "yes" {
				t.Error("the server's own BaseContext is gone")
			}
			gw.Config.Handler.ServeHTTP(w, r)
		}),
		BaseContext: func(net.Listener) context.Context { return context.WithValue(context.Background(), mine{}, "yes") },
	}
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, nil, ServeConfig{Linger: -1, Shutdown: time.Minute}, On(addr, s)) }()
	until(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	conn, in, res := upgrade(t, addr, "echo")
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %s, want 101", res.Status)
	}
	client(conn)
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Serve has not returned after 20s")
	}
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err = io.Copy(io.Discard, in)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		t.Error("the connection is still open after Serve")
	}
}

// fill writes until nobody reads.
func fill(conn net.Conn) {
	chunk := make([]byte, 64<<10)
	for {
		conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := conn.Write(chunk); err != nil {
			return
		}
	}
}

func TestUpgradesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u upgrades
		closed := make(chan string, 2)
		ended := u.add(func() { closed <- "early" })
		u.add(func() { t.Error("closed one that had ended") })()
		returned := make(chan struct{})
		go func() { u.end(); close(returned) }()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("end returned while an upgrade runs")
		default:
		}
		if got := <-closed; got != "early" {
			t.Errorf("closed %q, want early", got)
		}
		u.add(func() { closed <- "late" })()
		if got := <-closed; got != "late" {
			t.Errorf("closed %q, want late", got)
		}
		ended()
		<-returned
	})
}
