package router

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
)

// record is what happened, with the seconds since its making.
type record struct {
	began time.Time
	lines chan string
}

func newRecord() *record { return &record{time.Now(), make(chan string, 100)} }

func (r *record) add(what string) {
	r.lines <- time.Since(r.began).Round(time.Second).String() + " " + what
}

func (r *record) all() (lines []string) {
	close(r.lines)
	for line := range r.lines {
		lines = append(lines, line)
	}
	return lines
}

// fakeServer serves nothing; its requests take busy to end.
type fakeServer struct {
	record *record
	busy   time.Duration
	fail   chan error // ends Serve
	ended  chan struct{}
}

func newFakeServer(r *record) *fakeServer {
	return &fakeServer{record: r, fail: make(chan error, 1), ended: make(chan struct{})}
}

func (s *fakeServer) Serve(net.Listener) error {
	s.record.add("serving")
	select {
	case err := <-s.fail:
		return err
	case <-s.ended:
		return http.ErrServerClosed
	}
}

func (s *fakeServer) Shutdown(ctx context.Context) error {
	s.record.add("shutdown")
	close(s.ended)
	select {
	case <-time.After(s.busy):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *fakeServer) Close() error {
	s.record.add("closed")
	return nil
}

// fakeMember takes handover to leave, or ends with fail.
type fakeMember struct {
	record   *record
	handover time.Duration
	fail     chan error
}

func (m *fakeMember) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		m.record.add("leaving")
		time.Sleep(m.handover)
		m.record.add("left")
		return nil
	case err := <-m.fail:
		m.record.add("failed")
		return err
	}
}

func TestServeOrder(t *testing.T) {
	errNode, errServer := errors.New("id taken"), errors.New("too many open files")
	for _, c := range []struct {
		name     string
		conf     ServeConfig
		handover time.Duration
		busy     time.Duration
		end      func(cancel func(), m *fakeMember, s *fakeServer) // after 10 s
		want     []string
		errs     []string
	}{
		{
			name:     "linger outlasts the hand-over",
			handover: 2 * time.Second,
			end:      func(cancel func(), _ *fakeMember, _ *fakeServer) { cancel() },
			want:     []string{"0s serving", "10s leaving", "12s left", "15s shutdown"},
		},
		{
			name:     "hand-over outlasts linger",
			handover: 14 * time.Second,
			busy:     9 * time.Second,
			end:      func(cancel func(), _ *fakeMember, _ *fakeServer) { cancel() },
			want:     []string{"0s serving", "10s leaving", "24s left", "24s shutdown"},
		},
		{
			name:     "no linger",
			conf:     ServeConfig{Linger: -1},
			handover: time.Second,
			end:      func(cancel func(), _ *fakeMember, _ *fakeServer) { cancel() },
			want:     []string{"0s serving", "10s leaving", "11s left", "11s shutdown"},
		},
		{
			name: "requests overrun",
			conf: ServeConfig{Shutdown: 3 * time.Second},
			busy: time.Minute,
			end:  func(cancel func(), _ *fakeMember, _ *fakeServer) { cancel() },
			want: []string{"0s serving", "10s leaving", "10s left", "15s shutdown", "18s closed"},
			errs: []string{"cut off after 3s"},
		},
		{
			name: "node fails",
			end:  func(_ func(), m *fakeMember, _ *fakeServer) { m.fail <- errNode },
			want: []string{"0s serving", "10s failed", "10s shutdown"},
			errs: []string{errNode.Error()},
		},
		{
			name: "node ends",
			end:  func(_ func(), m *fakeMember, _ *fakeServer) { m.fail <- nil },
			want: []string{"0s serving", "10s failed", "10s shutdown"},
			errs: []string{"before it was told to"},
		},
		{
			name:     "server fails",
			handover: time.Second,
			end:      func(_ func(), _ *fakeMember, s *fakeServer) { s.fail <- errServer },
			want:     []string{"0s serving", "10s leaving", "11s left", "15s shutdown"},
			errs:     []string{errServer.Error(), "127.0.0.1:0"},
		},
		{
			name: "server ends",
			end:  func(_ func(), _ *fakeMember, s *fakeServer) { s.fail <- http.ErrServerClosed },
			want: []string{"0s serving", "10s leaving", "10s left", "15s shutdown"},
			errs: []string{"shut down before"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecord()
				s, m := newFakeServer(r), &fakeMember{record: r, handover: c.handover, fail: make(chan error, 1)}
				s.busy = c.busy
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(10*time.Second, func() { c.end(cancel, m, s) })
				err := serve(ctx, m, c.conf, []Endpoint{On("127.0.0.1:0", s)})
				if diff := cmp.Diff(c.want, r.all()); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
				if (err == nil) != (c.errs == nil) {
					t.Errorf("got %v, want an error: %v", err, c.errs != nil)
				}
				for _, want := range c.errs {
					if err != nil && !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want it to say %q", err, want)
					}
				}
			})
		})
	}
}

func TestServeGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Serve(ctx, nil, ServeConfig{}, On("127.0.0.1:0", newFakeServer(r))); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if diff := cmp.Diff([]string{"0s serving", "6s shutdown"}, r.all()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestServeListensOnAllOrStartsNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	r := newRecord()
	m := &fakeMember{record: r, fail: make(chan error)}
	err = serve(t.Context(), m, ServeConfig{}, []Endpoint{
		On(free.Addr().String(), newFakeServer(r)), On(taken.Addr().String(), newFakeServer(r)),
	})
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("got %v, want an error that names %v", err, taken.Addr())
	}
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %v, want not applied", got)
	}
	if lines := r.all(); lines != nil {
		t.Errorf("happened: %v, want nothing", lines)
	}
	again, err := net.Listen("tcp", free.Addr().String())
	if err != nil {
		t.Fatalf("the other address is still taken: %v", err)
	}
	again.Close()
}

func TestServeConfigFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		conf ServeConfig
		ends []Endpoint
		want string
	}{
		{"no endpoint", ServeConfig{}, nil, "needs an endpoint"},
		{"no server", ServeConfig{}, []Endpoint{{Addr: ":1"}}, `":1" has no server`},
		{"bound", ServeConfig{Shutdown: -1}, []Endpoint{On(":1", &http.Server{})}, "Shutdown"},
	} {
		if err := Serve(t.Context(), nil, c.conf, c.ends...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says %q", c.name, err, c.want)
		} else if cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: outcome: got %v, want not applied", c.name, cas.OutcomeOf(err))
		}
	}
}

// An http.Server with certificates must not speak plain HTTP.
func TestServeSpeaksTLS(t *testing.T) {
	source := httptest.NewUnstartedServer(nil)
	source.StartTLS()
	defer source.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }),
		TLSConfig: &tls.Config{Certificates: source.TLS.Certificates},
	}
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, nil, ServeConfig{Linger: -1}, On(addr, s)) }()
	tr := &http.Transport{TLSClientConfig: source.Client().Transport.(*http.Transport).TLSClientConfig}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr}
	until(t, "the server answers over TLS", func() bool {
		res, err := c.Get("https://" + addr)
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == 200
	})
	tr.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

// TestServeDoesNotWaitForReserves: a connection that was dialed and never used does not hold up the end.
func TestServeDoesNotWaitForReserves(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{}, 1)
	server := &http.Server{Handler: http.NotFoundHandler(), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			accepted <- struct{}{}
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, nil, ServeConfig{Linger: -1, Shutdown: 2 * time.Second}, Endpoint{Listener: l, Server: server})
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-accepted
	cancel()
	// With the connection left alone Shutdown would wait 5 s for it, and 2 s are too few.
	if err := <-ended; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}
