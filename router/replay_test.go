package router

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenure-go/tenure/shard"
)

// stale is a server that answers the first request of each connection, and applies the others but resets
// the connection before it answers.
func stale(t *testing.T) (addr string, applied *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	applied = new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for n := 0; ; n++ {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if r.Header.Get("Expect") != "" {
						io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
					}
					io.Copy(io.Discard, r.Body)
					applied.Add(1)
					if n > 0 {
						conn.(*net.TCPConn).SetLinger(0)
						return
					}
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
		}
	}()
	return l.Addr().String(), applied
}

// The transport must not send a request again that the owner may have applied: see the package's
// documentation for when it would.
func TestAppliedRequestIsNotReplayed(t *testing.T) {
	for _, c := range []struct {
		method string
		header string
		body   string
	}{
		{"GET", "", ""},
		{"HEAD", "", ""},
		{"OPTIONS", "", ""},
		{"GET", "", "x"},
		{"POST", "", ""},
		{"POST", "Idempotency-Key", ""},
		{"POST", "Idempotency-Key", "x"},
		{"PUT", "X-Idempotency-Key", ""},
		{"DELETE", "X-Idempotency-Key", ""},
		{"POST", "Idempotency-Key", strings.Repeat("x", 100<<10)},
	} {
		g := newGroup(t, 1)
		addr, applied := stale(t)
		g.join(shard.Member{ID: "b", Address: addr})
		gw := g.gateway(HTTPConfig{})
		g.claim("b", 0)
		gw.shows(t, "b")
		for i, want := range []int{200, 500} {
			r := request(t, c.method, gw.URL+"/k", strings.NewReader(c.body))
			if c.header != "" {
				r.Header.Set(c.header, "op")
			}
			r.GetBody = nil // nor may the test's own client
			got := do(t, r)
			if got.Status != want || want == 500 && got.Header.Get("Tenure-Outcome") != "uncertain" {
				t.Errorf("%s, %q, body of %d: request %d: got %d %v, want %d", c.method, c.header, len(c.body), i, got.Status, got.Header, want)
			}
		}
		if n := applied.Load(); n != 2 {
			t.Errorf("%s, %q, body of %d: applied %d times, want 2", c.method, c.header, len(c.body), n)
		}
	}
}

// Middleware that keeps a copy of the body may have left it in GetBody, as a client would.
func TestGetBodyIsNotUsed(t *testing.T) {
	g := newGroup(t, 1)
	addr, applied := stale(t)
	g.join(shard.Member{ID: "b", Address: addr})
	gw := g.gateway(HTTPConfig{})
	g.claim("b", 0)
	gw.shows(t, "b")
	front := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
		gw.Config.Handler.ServeHTTP(w, r)
	}))
	for i, want := range []int{200, 500} {
		r := request(t, "GET", front+"/k", strings.NewReader("x"))
		r.GetBody = nil
		if got := do(t, r); got.Status != want {
			t.Errorf("request %d: got %d, want %d", i, got.Status, want)
		}
	}
	if n := applied.Load(); n != 2 {
		t.Errorf("applied %d times, want 2", n)
	}
}

// A long body stays here until the owner has admitted the request.
func TestRefusedBodyIsNeverSent(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		t.Run(proto, func(t *testing.T) { testRefusedBody(t, proto) })
	}
}

func testRefusedBody(t *testing.T, proto string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := newGroup(t, 1)
	c := g.peer("c", &fakeNode{}, HTTPConfig{}, says("c"))
	received := make(chan []byte, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintf(conn, "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\nTenure-Refused: %s\r\n"+
			"Tenure-Owner: c\r\nTenure-Owner-Address: %s\r\nTenure-Epoch: 0:1000\r\n\r\n", r.Header.Get("Tenure-Hop"), c.Address)
		rest, _ := io.ReadAll(in) // to the end of the connection
		received <- rest
	}()
	g.join(shard.Member{ID: "b", Address: l.Addr().String()})
	gw := g.gateway(HTTPConfig{})
	g.claim("b", 0)
	gw.shows(t, "b")

	conn, err := net.Dial("tcp", gw.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := bytes.Repeat([]byte("x"), 300<<10)
	fmt.Fprintf(conn, "POST /k %s\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", proto, len(body), body)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	if want := "c got " + string(body); string(got) != want || err != nil {
		t.Errorf("got %s and %d bytes, %v; want c's answer of %d", res.Status, len(got), err, len(want))
	}
	if rest := <-received; len(rest) > 0 {
		t.Errorf("the refusing node received %d bytes of body, want none", len(rest))
	}
}

// The owner said no after it had read: what is left of the body is no whole request.
func TestSpentBodyIsNotSentAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := newGroup(t, 1)
	c := g.peer("c", &fakeNode{}, HTTPConfig{}, never(t, "c"))
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		io.CopyN(io.Discard, r.Body, 1000)
		fmt.Fprintf(conn, "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\nTenure-Refused: %s\r\n"+
			"Tenure-Owner: c\r\nTenure-Owner-Address: %s\r\nTenure-Epoch: 0:1000\r\n\r\n", r.Header.Get("Tenure-Hop"), c.Address)
		io.Copy(io.Discard, in)
	}()
	g.join(shard.Member{ID: "b", Address: l.Addr().String()})
	gw := g.gateway(HTTPConfig{})
	g.claim("b", 0)
	gw.shows(t, "b")
	got := do(t, request(t, "POST", gw.URL+"/k", strings.NewReader(strings.Repeat("x", 300<<10))))
	if got.Status != 503 || got.Header.Get("Tenure-Outcome") != "not-applied" {
		t.Errorf("got %+v, want 503, not applied", got)
	}
}
