package router

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// away is a gateway in front of a peer that runs next.
func away(t *testing.T, c HTTPConfig, next http.HandlerFunc) *peer {
	t.Helper()
	g := newGroup(t, 1)
	g.peer("b", &fakeNode{}, HTTPConfig{}, next)
	gw := g.gateway(c)
	g.claim("b", 0)
	gw.shows(t, "b")
	return gw
}

func TestEventsAreFlushed(t *testing.T) {
	next := make(chan struct{})
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		// Neither the type nor a missing length say that it is a stream.
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "24")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n", i)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("flush: %v", err)
			}
			<-next // the event arrives although no more come
		}
	})
	res, err := client(t).Do(request(t, "GET", gw.URL+"/k", nil))
	if err != nil {
		close(next)
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for i := range 3 {
		if want := fmt.Sprintf("data: %d", i); !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q %v, want %q", lines.Text(), lines.Err(), want)
		}
		next <- struct{}{}
	}
}

// A client that sends and reads in turns, over one request.
func TestBodiesStreamBothWays(t *testing.T) {
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.EnableFullDuplex(); err != nil {
			t.Errorf("full duplex: %v", err)
		}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "got %s\n", lines.Text())
			c.Flush()
		}
	})
	in, out := io.Pipe()
	first := make(chan error, 1)
	go func() { _, err := io.WriteString(out, "0\n"); first <- err }()
	res, err := client(t).Do(request(t, "POST", gw.URL+"/k", in))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(res.Body)
	for i := range 3 {
		if want := fmt.Sprintf("got %d", i); !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q %v, want %q", lines.Text(), lines.Err(), want)
		}
		if _, err := fmt.Fprintf(out, "%d\n", i+1); err != nil {
			t.Fatal(err)
		}
	}
	out.Close()
}

func TestTrailersGoBothWays(t *testing.T) {
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		io.Copy(w, r.Body)
		w.Header().Set("X-Announced", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "late")
	})
	r := request(t, "POST", gw.URL+"/k", nil)
	r.Body = io.NopCloser(strings.NewReader("hello"))
	r.ContentLength = -1
	r.Trailer = http.Header{"X-Sum": {"5"}}
	res, err := client(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); string(body) != "hello" || err != nil {
		t.Errorf("body: got %q %v, want hello", body, err)
	}
	if diff := cmp.Diff(http.Header{"X-Announced": {"5"}, "X-Late": {"late"}}, res.Trailer); diff != "" {
		t.Errorf("trailers (-want +got):\n%s", diff)
	}
}

// HTTP/2 has trailers beside a length. A short body is read here as a whole, a long one as it comes.
func TestTrailersOfBodyWithLength(t *testing.T) {
	for _, size := range []int{5, 100 << 10} {
		gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%d %v %s", n, err, r.Trailer.Get("X-Sum"))
		})
		front := httptest.NewUnstartedServer(gw.Config.Handler)
		front.Config.Protocols = new(http.Protocols)
		front.Config.Protocols.SetUnencryptedHTTP2(true)
		front.Start()
		t.Cleanup(front.Close)
		r := request(t, "POST", front.URL+"/k", io.NopCloser(strings.NewReader(strings.Repeat("x", size))))
		r.ContentLength = int64(size)
		r.Trailer = http.Header{"X-Sum": {"abc"}}
		tr := &http.Transport{Protocols: front.Config.Protocols}
		t.Cleanup(tr.CloseIdleConnections)
		res, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if want := fmt.Sprintf("%d <nil> abc", size); string(body) != want || err != nil || res.ProtoMajor != 2 {
			t.Errorf("got %s %q %v, want %q over HTTP/2", res.Proto, body, err, want)
		}
	}
}

// What handlers around this one have set stays, whatever comes before the answer proper.
func TestHeadersFromAroundStay(t *testing.T) {
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header().Set("X-Mine", "yes")
		says("b")(w, r)
	})
	front := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r1")
		gw.Config.Handler.ServeHTTP(w, r)
	}))
	for _, size := range []int{0, 10, 1 << 20} {
		var hints textproto.MIMEHeader
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if code == http.StatusEarlyHints {
					hints = h
				}
				return nil
			},
		})
		r := request(t, "POST", front+"/k", strings.NewReader(strings.Repeat("x", size)))
		got := do(t, r.WithContext(ctx))
		if got.Status != 200 || got.Header.Get("X-Request-Id") != "r1" || got.Header.Get("X-Mine") != "yes" || got.Header.Get("Link") != "" {
			t.Errorf("body of %d: got %d %v, want X-Request-Id and X-Mine, no Link", size, got.Status, got.Header)
		}
		if hints.Get("Link") == "" || hints.Get("X-Request-Id") != "r1" {
			t.Errorf("body of %d: early hints: got %v, want Link and X-Request-Id", size, hints)
		}
	}

	gw.http.conf.Transport = refuses{}
	r := request(t, "POST", front+"/k", nil)
	if got := do(t, r); got.Status != 500 || got.Header.Get("X-Request-Id") != "r1" {
		t.Errorf("failed: got %d %v, want 500 with X-Request-Id", got.Status, got.Header)
	}
}

// refuses breaks off every request.
type refuses struct{}

func (refuses) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// Who sent no Expect gets no "100 Continue", although the hop had one. Who did gets one, once the owner reads: one, also if the body
// is on its way before that of the hop is seen.
func TestContinueIsForWhoExpectsIt(t *testing.T) {
	continues(t, away(t, HTTPConfig{}, says("b")).URL)
	continues(t, away(t, HTTPConfig{Transport: readsFirst{}}, says("b")).URL)
}

// readsFirst is a hop that has sent the body before it tells of the owner's "100 Continue".
type readsFirst struct{}

func (readsFirst) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if trace := httptrace.ContextClientTrace(r.Context()); err == nil && trace != nil && trace.Got1xxResponse != nil {
		err = trace.Got1xxResponse(http.StatusContinue, nil)
	}
	return &http.Response{
		StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, err
}

func continues(t *testing.T, url string) {
	t.Helper()
	for _, expects := range []bool{false, true} {
		got := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				got++
				return nil
			},
		})
		r := request(t, "POST", url+"/k", strings.NewReader(strings.Repeat("x", 1<<20))).WithContext(ctx)
		want := 0
		if expects {
			r.Header.Set("Expect", "100-continue")
			want = 1
		}
		if a := do(t, r); a.Status != 200 || len(a.Body) < 1<<20 {
			t.Errorf("expects %v: got %d and %d bytes", expects, a.Status, len(a.Body))
		}
		if got != want {
			t.Errorf("expects %v: got %d times 100 Continue, want %d", expects, got, want)
		}
	}
}

func TestClientGoneEndsHop(t *testing.T) {
	for _, size := range []int{0, 10, 1 << 20} {
		running, ended := make(chan struct{}), make(chan error, 1)
		gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			close(running)
			select {
			case <-r.Context().Done():
				ended <- nil
			case <-time.After(10 * time.Second):
				ended <- fmt.Errorf("still running after 10s")
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		r := request(t, "POST", gw.URL+"/k", strings.NewReader(strings.Repeat("x", size))).WithContext(ctx)
		go func() { <-running; cancel() }()
		if res, err := client(t).Do(r); err == nil {
			res.Body.Close()
			t.Errorf("body of %d: got %s, want an error", size, res.Status)
		}
		if err := <-ended; err != nil {
			t.Errorf("body of %d: at the owner: %v", size, err)
		}
	}
}

// What has begun can't be taken back: the client must see that it is not whole.
func TestBrokenAnswerBreaksOff(t *testing.T) {
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	res, err := client(t).Do(request(t, "GET", gw.URL+"/k", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("got %q without error, want it to break off", body)
	}
}

func TestUnansweredIsUncertain(t *testing.T) {
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	got := do(t, request(t, "POST", gw.URL+"/k", nil))
	if got.Status != 500 || got.Header.Get("Tenure-Outcome") != "uncertain" || got.Header.Get("Retry-After") != "" {
		t.Errorf("got %+v, want 500, uncertain", got)
	}
}

// The client breaks off, or exceeds a limit, before anything was sent.
func TestBodyFailsBeforeHop(t *testing.T) {
	gw := away(t, HTTPConfig{}, func(http.ResponseWriter, *http.Request) { t.Error("ran") })
	handler := gw.Config.Handler
	limited := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 3)
		handler.ServeHTTP(w, r)
	})
	front := newServer(t, limited)
	if got := do(t, request(t, "POST", front+"/k", strings.NewReader("hello"))); got.Status != 413 {
		t.Errorf("above a limit: got %+v, want 413", got)
	}

	unpacked := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader("hello, unpacked")) // and the length left as it was
		handler.ServeHTTP(w, r)
	}))
	if got := do(t, request(t, "POST", unpacked+"/k", strings.NewReader("hello"))); got.Status != 400 {
		t.Errorf("longer than it says: got %+v, want 400", got)
	}

	conn, err := net.Dial("tcp", gw.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /k HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhal")
	conn.(*net.TCPConn).CloseWrite()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 400 {
		t.Errorf("broken off: got %s, want 400", res.Status)
	}
}
