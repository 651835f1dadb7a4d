package idem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
)

func newEngine(t testing.TB, c idem.Config) *idem.Engine {
	t.Helper()
	store := memkv.New()
	t.Cleanup(func() { _ = store.Close() })
	e, err := idem.New(idem.OnCAS(store, ""), c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tenant(r *http.Request) (string, error) {
	if s := r.Header.Get("Tenant"); s != "" {
		return s, nil
	}
	return "", errors.New("who is this?")
}

// request is a POST of body by tenant a with key k, but for what edit changes.
func request(body string, edit ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders?x=1", strings.NewReader(body))
	r.Header.Set("Tenant", "a")
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set("Content-Type", "application/json")
	for _, e := range edit {
		e(r)
	}
	return r
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) {
		if len(values) == 0 {
			r.Header.Del(name)
			return
		}
		r.Header[name] = values
	}
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wantProblem checks for a problem of that status and name.
func wantProblem(t testing.TB, r *http.Response, status int, name string) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if r.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got %s with content type %q, want a problem", r.Status, r.Header.Get("Content-Type"))
	}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != status || p.Status != status || !strings.HasSuffix(p.Type, "#"+name) || p.Title == "" || p.Detail == "" {
		t.Errorf("got %s, %+v, want %d, %s", r.Status, p, status, name)
	}
}

// counting answers with a status and how often it ran.
func counting(runs *atomic.Int64, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "run %d", runs.Add(1))
	}
}

func TestHTTP_ReplaysByteExact(t *testing.T) {
	runs := 0
	h := idem.HTTP(newEngine(t, idem.Config{}), idem.HTTPConfig{Scope: tenant})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		w.Header().Set("Content-Type", "text/x; a=\"\xe9\"") // not UTF-8
		w.Header().Add("Link", "</a>; rel=\"x\"")
		w.Header().Add("Link", "</b>")
		w.Header().Set("Location", "/orders/1?a=<&>")
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Request-Id", "1")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("Vary", "too late")
		_, _ = io.WriteString(w, "\x00\xff<")
		_, _ = w.Write([]byte("body"))
	}))
	first, again := serve(h, request("{}")), serve(h, request("{}"))
	if runs != 1 {
		t.Fatalf("the handler ran %d times, want once", runs)
	}
	if first.StatusCode != 201 || first.Header.Get("Set-Cookie") == "" || first.Header.Get("X-Request-Id") == "" || first.Header.Get("Vary") != "" {
		t.Errorf("first answer: got %s %v", first.Status, first.Header)
	}
	if first.Header.Get(idem.Replayed) != "" || again.Header.Get(idem.Replayed) != "true" {
		t.Errorf("%s: got %q, then %q", idem.Replayed, first.Header.Get(idem.Replayed), again.Header.Get(idem.Replayed))
	}
	if a, b := bodyOf(t, first), bodyOf(t, again); a != b || a != "\x00\xff<body" || again.StatusCode != 201 {
		t.Errorf("got %q, then %s %q", a, again.Status, b)
	}
	want := http.Header{
		"Content-Type": {"text/x; a=\"\xe9\""}, "Link": {"</a>; rel=\"x\"", "</b>"}, "Location": {"/orders/1?a=<&>"}, idem.Replayed: {"true"},
	}
	if diff := cmp.Diff(want, again.Header); diff != "" {
		t.Errorf("replayed headers (-want +got):\n%s", diff)
	}
}

func TestHTTP_NeverReplaysCookies(t *testing.T) {
	c := idem.HTTPConfig{Scope: tenant, Headers: []string{"set-cookie", "x-mine"}}
	h := idem.HTTP(newEngine(t, idem.Config{}), c)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Mine", "1")
	}))
	serve(h, request(""))
	again := serve(h, request(""))
	if again.Header.Get("Set-Cookie") != "" || again.Header.Get("X-Mine") != "1" {
		t.Errorf("got %v, want X-Mine and no cookie", again.Header)
	}
}

func TestHTTP_Keys(t *testing.T) {
	var runs atomic.Int64
	h := idem.HTTP(newEngine(t, idem.Config{}), idem.HTTPConfig{Scope: tenant})(counting(&runs, 200))
	for _, test := range []struct {
		values  []string
		problem string
	}{
		{[]string{"abc"}, ""},
		{[]string{`"abc"`}, ""}, // the same key
		{[]string{`"abc";v=1`}, ""},
		{nil, "key-missing"},
		{[]string{""}, "key-invalid"},
		{[]string{`""`}, "key-invalid"},
		{[]string{"abc", "abc"}, "key-invalid"},
		{[]string{"a,b"}, "key-invalid"},
		{[]string{`"a", "b"`}, "key-invalid"},
		{[]string{`"a`}, "key-invalid"},
		{[]string{"a b"}, "key-invalid"},
		{[]string{"a;b=1"}, "key-invalid"},
		{[]string{strings.Repeat("a", 256)}, "key-invalid"},
		{[]string{`"` + strings.Repeat("a", 256) + `"`}, "key-invalid"},
	} {
		before := runs.Load()
		r := serve(h, request("{}", header("Idempotency-Key", test.values...)))
		if test.problem != "" {
			wantProblem(t, r, 400, test.problem)
			if runs.Load() != before {
				t.Errorf("%q: the handler ran", test.values)
			}
		} else if got := bodyOf(t, r); got != "run 1" {
			t.Errorf("%q: got %s %q, want the first answer", test.values, r.Status, got)
		}
	}
}

func TestHTTP_Need(t *testing.T) {
	var runs atomic.Int64
	h := idem.HTTP(newEngine(t, idem.Config{}), idem.HTTPConfig{Scope: tenant})(counting(&runs, 200))
	for _, test := range []struct {
		method      string
		without     int // status without a key
		with, again string
	}{
		{"POST", 400, "run 1", "run 1"},
		{"PATCH", 400, "run 2", "run 2"},
		{"PUT", 200, "run 4", "run 4"},
		{"DELETE", 200, "run 6", "run 6"},
		{"GET", 200, "run 8", "run 9"},
	} {
		edit := func(r *http.Request) { r.Method = test.method; r.Header.Set("Idempotency-Key", test.method) }
		without := serve(h, request("", edit, header("Idempotency-Key")))
		with, again := bodyOf(t, serve(h, request("", edit))), bodyOf(t, serve(h, request("", edit)))
		if without.StatusCode != test.without || with != test.with || again != test.again {
			t.Errorf("%s: got %s, %q, %q, want %d, %q, %q", test.method, without.Status, with, again, test.without, test.with, test.again)
		}
	}
	own := idem.HTTPConfig{Scope: tenant, Need: func(r *http.Request) idem.Need {
		if r.URL.Query().Has("x") {
			return idem.Ignored
		}
		return idem.Required
	}}
	if r := serve(idem.HTTP(newEngine(t, idem.Config{}), own)(counting(&runs, 200)), request("", header("Idempotency-Key"))); r.StatusCode != 200 {
		t.Errorf("a function of one's own: got %s", r.Status)
	}
}

// The reported failure: the same key of two tenants gave one the other's answer.
func TestCase_honoidempotency126_KeysNeverLeakAcrossTenants(t *testing.T) {
	var runs atomic.Int64
	e := newEngine(t, idem.Config{})
	h := idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(counting(&runs, 200))
	for i, name := range []string{"a", "b"} {
		for range 2 {
			if got, want := bodyOf(t, serve(h, request("{}", header("Tenant", name)))), fmt.Sprintf("run %d", i+1); got != want {
				t.Errorf("tenant %s: got %q, want %q", name, got, want)
			}
		}
	}
	var log strings.Builder
	told := idem.HTTP(e, idem.HTTPConfig{Scope: tenant, Logger: slog.New(slog.NewTextHandler(&log, nil))})(counting(&runs, 200))
	r := serve(told, request("{}", header("Tenant")))
	if body := bodyOf(t, r); strings.Contains(body, "who is this?") || !strings.Contains(log.String(), "who is this?") {
		t.Errorf("Scope's error is for the logger and not for the client: got %s and in the log %q", body, log.String())
	}
	wantProblem(t, serve(h, request("{}", header("Tenant"))), 403, "scope")
	wantProblem(t, serve(idem.HTTP(e, idem.HTTPConfig{})(counting(&runs, 200)), request("{}")), 500, "config")
	if got := runs.Load(); got != 2 {
		t.Errorf("the handler ran %d times, want twice", got)
	}
}

func TestHTTP_OtherRequest(t *testing.T) {
	var runs atomic.Int64
	h := idem.HTTP(newEngine(t, idem.Config{}), idem.HTTPConfig{Scope: tenant})(counting(&runs, 200))
	serve(h, request("{}"))
	for what, edit := range map[string]func(*http.Request){
		"method":       func(r *http.Request) { r.Method = http.MethodPatch },
		"path":         func(r *http.Request) { r.URL.Path = "/refunds" },
		"query":        func(r *http.Request) { r.URL.RawQuery = "x=2" },
		"content type": header("Content-Type", "text/plain"),
		"body":         func(r *http.Request) { *r = *request("{ }") },
		"no body":      func(r *http.Request) { *r = *request("") },
		"large body":   func(r *http.Request) { *r = *request(strings.Repeat("x", 2<<20)) },
	} {
		r := serve(h, request("{}", edit))
		t.Log(what)
		wantProblem(t, r, 422, "mismatch")
	}
	if r := serve(h, request("{}")); r.StatusCode != 200 || runs.Load() != 1 {
		t.Errorf("the same request: got %s, %d runs", r.Status, runs.Load())
	}
}

func TestHTTP_StatusPolicy(t *testing.T) {
	for status, kept := range map[int]bool{
		200: true, 201: true, 204: true, 303: true, 400: true, 404: true, 409: true, 422: true,
		408: false, 421: false, 425: false, 429: false, 500: false, 502: false, 503: false,
	} {
		var runs atomic.Int64
		e := newEngine(t, idem.Config{})
		h := idem.HTTP(e, idem.HTTPConfig{Scope: tenant, Interrupted: idem.Block()})(counting(&runs, status))
		first, again := serve(h, request("")), serve(h, request(""))
		want := int64(2)
		if kept || status >= 500 {
			want = 1
		}
		if first.StatusCode != status || runs.Load() != want {
			t.Errorf("%d: got %s, and the handler ran %d times, want %d", status, first.Status, runs.Load(), want)
		}
		switch {
		case status >= 500:
			wantProblem(t, again, 409, "interrupted") // nobody knows how far it came
		case again.StatusCode != status || (again.Header.Get(idem.Replayed) == "true") != kept:
			t.Errorf("%d: then got %s, replayed: %q", status, again.Status, again.Header.Get(idem.Replayed))
		}
		if status < 500 {
			continue
		}
		retry := idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(counting(&runs, status))
		if r := serve(retry, request("")); r.StatusCode != status || runs.Load() != 2 {
			t.Errorf("%d, Retry: got %s, %d runs, want 2", status, r.Status, runs.Load())
		}
		decided := idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			op, err := idem.From(r.Context())
			if err != nil {
				t.Error(err)
				return
			}
			op.Decide()
			counting(&runs, status)(w, r)
		}))
		serve(decided, request(""))
		if r := serve(decided, request("")); r.StatusCode != status || r.Header.Get(idem.Replayed) != "true" || runs.Load() != 3 {
			t.Errorf("%d, decided: got %s, replayed %q, %d runs", status, r.Status, r.Header.Get(idem.Replayed), runs.Load())
		}
	}
}

func TestHTTP_InProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, idem.Config{})
		slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(3 * time.Second)
			_, _ = io.WriteString(w, "done")
		})
		h := idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(slow)
		waits := idem.HTTP(e, idem.HTTPConfig{Scope: tenant, Wait: 10 * time.Second})(slow)
		hasty := idem.HTTP(e, idem.HTTPConfig{Scope: tenant, Wait: time.Second})(slow)
		first := make(chan string)
		go func() { first <- bodyOf(t, serve(h, request(""))) }()
		synctest.Wait()
		for _, h := range []http.Handler{h, hasty} {
			r := serve(h, request(""))
			wantProblem(t, r, 409, "in-progress")
			if got := r.Header.Get("Retry-After"); got != "1" {
				t.Errorf("Retry-After: got %q, want 1", got)
			}
		}
		wantProblem(t, serve(waits, request("other")), 422, "mismatch")
		r := serve(waits, request(""))
		if got := bodyOf(t, r); got != "done" || r.Header.Get(idem.Replayed) != "true" {
			t.Errorf("waiting: got %s %q", r.Status, got)
		}
		if got := <-first; got != "done" {
			t.Errorf("the first: got %q", got)
		}
	})
}

func TestHTTP_PanicIsLetThrough(t *testing.T) {
	e := newEngine(t, idem.Config{})
	h := idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}))
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("got panic %v, want the handler's", v)
			}
		}()
		h.ServeHTTP(w, request(""))
	}()
	if w.Body.Len() != 0 {
		t.Errorf("%q was sent, want nothing", w.Body)
	}
	wantProblem(t, serve(idem.HTTP(e, idem.HTTPConfig{Scope: tenant, Interrupted: idem.Block()})(h), request("")), 409, "interrupted")
	found := idem.Reconcile(func(context.Context, *idem.Op) (idem.Answer, bool, error) {
		return idem.Answer{Status: 201, Body: []byte("found"), Header: map[string][][]byte{"Location": {[]byte("/x")}}}, true, nil
	})
	for range 2 {
		r := serve(idem.HTTP(e, idem.HTTPConfig{Scope: tenant, Interrupted: found})(h), request(""))
		if got := bodyOf(t, r); r.StatusCode != 201 || got != "found" || r.Header.Get("Location") != "/x" {
			t.Errorf("reconciled: got %s %q %v", r.Status, got, r.Header)
		}
	}
}

func TestHTTP_StoreAway(t *testing.T) {
	store := memkv.New()
	e, err := idem.New(idem.OnCAS(store, ""), idem.Config{Finish: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: memkv.Connection} }
	var runs atomic.Int64
	h := idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counting(&runs, 200)(w, r)
		store.Intercept(refuse)
	}))
	// It has run, and is not recorded. To be told anything else would make the client try again.
	if got := bodyOf(t, serve(h, request(""))); got != "run 1" {
		t.Errorf("got %q, want the handler's answer", got)
	}
	r := serve(h, request("", header("Idempotency-Key", "other")))
	wantProblem(t, r, 503, "unavailable")
	if r.Header.Get("Retry-After") == "" || runs.Load() != 1 {
		t.Errorf("got Retry-After %q, %d runs", r.Header.Get("Retry-After"), runs.Load())
	}
}

func TestHTTP_DefaultHeadersAreCanonical(t *testing.T) {
	for _, name := range idem.ReplayedHeaders() {
		if http.CanonicalHeaderKey(name) != name || name == "Set-Cookie" {
			t.Errorf("%q", name)
		}
	}
	if !slices.IsSorted(idem.ReplayedHeaders()) {
		t.Error("not sorted")
	}
}
