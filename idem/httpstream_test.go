package idem_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/idem"
)

// start serves h behind the middleware, on a real connection. A request waits for an earlier one, since a
// client may have an answer before its handler has returned.
func start(t *testing.T, c idem.Config, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(idem.HTTP(newEngine(t, c), idem.HTTPConfig{Scope: tenant, Wait: 10 * time.Second})(h))
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, s *httptest.Server, key string, body io.Reader) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tenant", "a")
	r.Header.Set("Idempotency-Key", key)
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// A flushed answer is sent as it comes, and kept if it is small.
func TestHTTP_Flush(t *testing.T) {
	runs, seen := 0, make(chan struct{})
	s := start(t, idem.Config{MaxResult: 1000}, func(w http.ResponseWriter, r *http.Request) {
		runs++
		_, _ = io.WriteString(w, "one ")
		if r.ContentLength > 0 {
			w.(http.Flusher).Flush()
		} else if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-seen
		_, _ = io.WriteString(w, "two")
	})
	for _, key := range []string{"a", "b"} {
		var body io.Reader
		if key == "a" {
			body = strings.NewReader("x")
		}
		r := post(t, s, key, body)
		got := make([]byte, 4)
		if _, err := io.ReadFull(r.Body, got); err != nil || string(got) != "one " {
			t.Errorf("before the handler's end: got %q, %v", got, err)
		}
		seen <- struct{}{}
		if got := bodyOf(t, r); got != "two" {
			t.Errorf("then got %q", got)
		}
	}
	r := post(t, s, "b", nil)
	if got := bodyOf(t, r); got != "one two" || r.Header.Get(idem.Replayed) != "true" || runs != 2 {
		t.Errorf("replay: got %s %q, %d runs", r.Status, got, runs)
	}
}

// The reported failure: an answer too large to be kept was executed again.
func TestCase_fiber4287_LargeAnswers(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789"), 10_000)
	for name, write := range map[string]func(w http.ResponseWriter){
		"one write": func(w http.ResponseWriter) { _, _ = w.Write(large) },
		"many writes": func(w http.ResponseWriter) {
			for b := range bytes.SplitSeq(large, []byte("5")) {
				_, _ = w.Write(b)
				_, _ = io.WriteString(w, "5")
			}
		},
		"ReadFrom": func(w http.ResponseWriter) {
			n, err := w.(io.ReaderFrom).ReadFrom(bytes.NewReader(large))
			if n != int64(len(large)) || err != nil {
				t.Errorf("ReadFrom: got %d, %v", n, err)
			}
		},
	} {
		runs := 0
		s := start(t, idem.Config{MaxResult: 1000}, func(w http.ResponseWriter, _ *http.Request) {
			runs++
			w.Header().Set("Location", "/1")
			w.WriteHeader(http.StatusCreated)
			write(w)
		})
		r := post(t, s, "k", nil)
		if got := bodyOf(t, r); r.StatusCode != 201 || !strings.HasPrefix(got, string(large)) || r.Header.Get("Location") != "/1" {
			t.Errorf("%s: got %s and %d bytes", name, r.Status, len(got))
		}
		wantProblem(t, post(t, s, "k", nil), 410, "not-kept")
		if runs != 1 {
			t.Errorf("%s: the handler ran %d times, want once", name, runs)
		}
	}
}

func TestHTTP_ReadFromSmall(t *testing.T) {
	s := start(t, idem.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, strings.NewReader("small"))
	})
	for range 2 {
		if got := bodyOf(t, post(t, s, "k", nil)); got != "small" {
			t.Errorf("got %q", got)
		}
	}
}

func TestHTTP_Hijack(t *testing.T) {
	runs := 0
	s := start(t, idem.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		runs++
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		_ = rw.Flush()
	})
	if r := post(t, s, "k", nil); r.StatusCode != 202 || bodyOf(t, r) != "hi" {
		t.Errorf("got %s", r.Status)
	}
	wantProblem(t, post(t, s, "k", nil), 410, "not-kept")
	if runs != 1 {
		t.Errorf("the handler ran %d times, want once", runs)
	}
}

func TestHTTP_InterimAnswersAndTrailers(t *testing.T) {
	s := start(t, idem.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Sum")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Sum", "42")
		w.Header().Set("Late", "1")
		w.Header().Set(http.TrailerPrefix+"More", "43")
	})
	r := post(t, s, "k", nil)
	got := bodyOf(t, r)
	if r.StatusCode != 200 || got != "body" || r.Trailer.Get("Sum") != "42" || r.Trailer.Get("More") != "43" || r.Header.Get("Late") != "" {
		t.Errorf("got %s %q, trailers %v, headers %v", r.Status, got, r.Trailer, r.Header)
	}
	if r := post(t, s, "k", nil); r.StatusCode != 200 || bodyOf(t, r) != "body" || len(r.Trailer) > 0 {
		t.Errorf("replay: got %s, trailers %v", r.Status, r.Trailer)
	}
}

// A handler sees the optional interfaces that there are, and no others.
func TestHTTP_Interfaces(t *testing.T) {
	type plain struct{ http.ResponseWriter }
	type hijacker struct {
		http.ResponseWriter
		http.Hijacker
	}
	for name, w := range map[string]http.ResponseWriter{
		"plain": plain{httptest.NewRecorder()}, "recorder": httptest.NewRecorder(),
		"hijacker": hijacker{httptest.NewRecorder(), failingHijacker{}},
	} {
		h := idem.HTTP(newEngine(t, idem.Config{}), idem.HTTPConfig{Scope: tenant})(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
			_, f1 := w.(http.Flusher)
			_, f2 := got.(http.Flusher)
			_, h1 := w.(http.Hijacker)
			hj, h2 := got.(http.Hijacker)
			_, r1 := w.(io.ReaderFrom)
			_, r2 := got.(io.ReaderFrom)
			_, p1 := w.(http.Pusher)
			_, p2 := got.(http.Pusher)
			if f1 != f2 || h1 != h2 || r1 != r2 || p1 != p2 {
				t.Errorf("%s: the handler's writer has other interfaces", name)
			}
			if h2 {
				if _, _, err := hj.Hijack(); err == nil {
					t.Error("Hijack: got nil")
				}
			}
			if n, err := got.Write([]byte("x")); n != 1 || err != nil {
				t.Errorf("Write: got %d, %v", n, err)
			}
		}))
		h.ServeHTTP(w, request(""))
	}
	rec := httptest.NewRecorder()
	idem.HTTP(newEngine(t, idem.Config{}), idem.HTTPConfig{Scope: tenant})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
			t.Errorf("a body with 204: got %v", err)
		}
	})).ServeHTTP(rec, request(""))
}

type failingHijacker struct{}

func (failingHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("no")
}

// What the handler reads is what was fingerprinted, wherever it was kept meanwhile.
func TestHTTP_Bodies(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	e := newEngine(t, idem.Config{})
	h := idem.HTTP(e, idem.HTTPConfig{Scope: tenant, MaxBody: 5 << 20})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		if _, err := io.Copy(sum, r.Body); err != nil {
			t.Error(err)
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		_, _ = w.Write(sum.Sum(nil))
	}))
	for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20, 5<<20 + 1} {
		for _, known := range []bool{true, false} {
			body := bytes.Repeat([]byte("x"), size)
			key := header("Idempotency-Key", strings.Repeat("k", 1+size%200))
			edit := func(r *http.Request) {
				r.Body = io.NopCloser(bytes.NewReader(body))
				r.ContentLength = int64(size)
				if !known {
					r.ContentLength = -1
				}
			}
			r := serve(h, request("", key, edit))
			if size > 5<<20 {
				wantProblem(t, r, 413, "body")
				continue
			}
			want := sha256.Sum256(body)
			if got := bodyOf(t, r); got != string(want[:]) {
				t.Errorf("%d bytes, known: %t: the handler read something else", size, known)
			}
			if (r.Header.Get(idem.Replayed) == "true") == known {
				t.Errorf("%d bytes, known: %t: replayed: %q", size, known, r.Header.Get(idem.Replayed))
			}
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("files left behind: %v, %v", files, err)
	}
	broken := func(r *http.Request) {
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), failingReader{}))
		r.ContentLength = -1
	}
	wantProblem(t, serve(h, request("", header("Idempotency-Key", "broken"), broken)), 400, "body")
	limited := func(r *http.Request) {
		r.Body = http.MaxBytesReader(nil, io.NopCloser(bytes.NewReader(make([]byte, 2<<20))), 1<<20+7)
		r.ContentLength = -1
	}
	wantProblem(t, serve(h, request("", header("Idempotency-Key", "limited"), limited)), 413, "body")
	t.Setenv("TMPDIR", dir+"/nowhere")
	wantProblem(t, serve(h, request(strings.Repeat("x", 2<<20), header("Idempotency-Key", "nowhere"))), 503, "unavailable")
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
