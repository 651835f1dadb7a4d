package router

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// answer is what a client saw.
type answer struct {
	Status int
	Body   string
	Header http.Header
}

func do(t testing.TB, r *http.Request) answer {
	t.Helper()
	res, err := client(t).Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return answer{res.StatusCode, strings.TrimSpace(string(body)), res.Header}
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// says answers with a name and the request's body.
func says(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s got %s", name, body)
		if err != nil {
			fmt.Fprintf(w, " and %v", err)
		}
	}
}

func never(t testing.TB, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s ran the handler", name)
	}
}

func TestForwardedRequestArrivesAsItCame(t *testing.T) {
	g := newGroup(t, 1)
	seen := make(chan *http.Request, 1)
	a := g.peer("a", &fakeNode{enter: knowsNobody}, HTTPConfig{}, never(t, "a"))
	b := g.peer("b", &fakeNode{}, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set("X-Mine", "yes")
		w.Header().Set("Tenure-Outcome", "applied")
		w.Header().Set("Tenure-Internal", "x")
		w.WriteHeader(http.StatusTeapot)
	})
	g.claim("b", 0)
	a.shows(t, "b")

	r := request(t, "POST", a.URL+"/k%2Fey/x?q=1;2&%zz", strings.NewReader("hello"))
	r.Host = "bank.example"
	for name, v := range map[string]string{
		"Authorization":     "secret",
		"Idempotency-Key":   "op-1",
		"X-Idempotency-Key": "op-2",
		"X-Forwarded-For":   "192.0.2.1",
		"X-Forwarded-Proto": "https",
		"Connection":        "X-Private, Tenure-Hop",
		"X-Private":         "of the client's connection",
		"Tenure-Token":      "accounts/g1/0/7",
		"Tenure-Secret":     "forged",
		"User-Agent":        "",
	} {
		r.Header.Set(name, v)
	}
	got := do(t, r)
	if got.Status != http.StatusTeapot || got.Header.Get("X-Mine") != "yes" || got.Header.Get("Tenure-Outcome") != "applied" {
		t.Errorf("answer: got %+v, want b's", got)
	}
	if v := got.Header.Get("Tenure-Internal"); v != "" {
		t.Errorf("answer's Tenure-Internal: got %q, want it removed", v)
	}

	in := <-seen
	if in.RequestURI != "/k%2Fey/x?q=1;2&%zz" || in.Host != "bank.example" || in.PathValue("key") != "k/ey" {
		t.Errorf("at the owner: got %q on host %q with key %q", in.RequestURI, in.Host, in.PathValue("key"))
	}
	if !Forwarded(in) {
		t.Error("Forwarded at the owner: got false, want true")
	}
	in.Header.Del("Accept-Encoding")
	want := http.Header{
		"Authorization":     {"secret"},
		"Content-Length":    {"5"},
		"Idempotency-Key":   {"op-1"},
		"Tenure-Token":      {"accounts/g1/0/7"},
		"X-Idempotency-Key": {"op-2"},
		"X-Forwarded-For":   {"192.0.2.1, 127.0.0.1"},
		"X-Forwarded-Host":  {"bank.example"},
		"X-Forwarded-Proto": {"https"},
	}
	if diff := cmp.Diff(want, in.Header); diff != "" {
		t.Errorf("headers at the owner (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(b.Address, in.Context().Value(http.LocalAddrContextKey).(net.Addr).String()); diff != "" {
		t.Errorf("served at (-want +got):\n%s", diff)
	}
}

func TestLocalRequestStays(t *testing.T) {
	g := newGroup(t, 1)
	var left atomic.Bool
	a := g.peer("a", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		if key != "k" {
			t.Errorf("entered with key %q, want k", key)
		}
		return ctx, func() { left.Store(true) }, nil
	}}, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		_, own := r.Header["Tenure-Secret"]
		if _, err := fence.FromHeader(r.Header); err != nil || Forwarded(r) || own || left.Load() {
			t.Errorf("handler: forwarded %v, headers %v, left %v", Forwarded(r), r.Header, left.Load())
		}
		says("a")(w, r)
	})
	r := request(t, "POST", a.URL+"/k", strings.NewReader("x"))
	fence.SetHeader(r.Header, shard.Token{Group: "accounts", GroupID: "g1", Shard: 0, Epoch: 7})
	r.Header.Set("Tenure-Secret", "forged")
	if got := do(t, r); got.Body != "a got x" {
		t.Errorf("got %+v", got)
	}
	until(t, "the tenure is left", left.Load)
}

func TestRefusedIsSentOn(t *testing.T) {
	for _, size := range []int{0, 10, 64 << 10, 1 << 20} {
		body := strings.Repeat("x", size)
		g := newGroup(t, 1)
		c := g.peer("c", &fakeNode{}, HTTPConfig{}, says("c"))
		asked := make(chan string, 10)
		b := g.peer("b", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
			asked <- key
			return notOwner(c.Member, 1000)(ctx, key)
		}}, HTTPConfig{}, never(t, "b"))
		a := g.peer("a", &fakeNode{enter: knowsNobody}, HTTPConfig{}, never(t, "a"))
		g.claim(b.ID, 0)
		a.shows(t, "b")
		got := do(t, request(t, "POST", a.URL+"/k", strings.NewReader(body)))
		if want := "c got " + body; got.Status != 200 || got.Body != strings.TrimSpace(want) {
			t.Errorf("body of %d: got %d and %d bytes, want 200 and %d", size, got.Status, len(got.Body), len(want))
		}
		if len(asked) != 1 {
			t.Errorf("body of %d: b was asked %d times, want once", size, len(asked))
		}
	}
}

// A node that refuses and knows nobody: the table will, sooner or later.
func TestRefusedWaitsForTable(t *testing.T) {
	g := newGroup(t, 1)
	g.peer("b", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		g.claim("c", 0)
		return knowsNobody(ctx, key)
	}}, HTTPConfig{}, never(t, "b"))
	g.peer("c", &fakeNode{}, HTTPConfig{}, says("c"))
	gw := g.gateway(HTTPConfig{})
	g.claim("b", 0)
	gw.shows(t, "b")
	if got := do(t, request(t, "GET", gw.URL+"/k", nil)); got.Body != "c got" {
		t.Errorf("got %+v, want c's answer", got)
	}
}

func TestTriesAreBounded(t *testing.T) {
	g := newGroup(t, 1)
	var asked atomic.Int64
	var b *peer
	b = g.peer("b", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		n := asked.Add(1)
		// Ever newer, ever wrong: another name for itself, as a broken node might say.
		return notOwner(shard.Member{ID: "b", Address: b.Address}, shard.Epoch(1000+n))(ctx, key)
	}}, HTTPConfig{}, never(t, "b"))
	gw := g.gateway(HTTPConfig{Tries: 3})
	g.claim("b", 0)
	gw.shows(t, "b")
	got := do(t, request(t, "GET", gw.URL+"/k", nil))
	if got.Status != 503 || got.Header.Get("Retry-After") == "" || got.Header.Get("Tenure-Outcome") != "not-applied" {
		t.Errorf("got %+v, want 503, not applied", got)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("sent %d times, want 3", n)
	}
}

// A 421 of the handler's own is an answer like any other, whatever headers it has.
func TestHandlerCantRefuseForTheRouter(t *testing.T) {
	g := newGroup(t, 1)
	var ran atomic.Int64
	g.peer("b", &fakeNode{}, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		ran.Add(1)
		for name, v := range r.Header { // what it could have learned
			w.Header()[strings.Replace(name, "Hop", "Refused", 1)] = v
		}
		w.Header().Set("Tenure-Refused", "0")
		w.WriteHeader(http.StatusMisdirectedRequest)
	})
	gw := g.gateway(HTTPConfig{})
	g.claim("b", 0)
	gw.shows(t, "b")
	got := do(t, request(t, "POST", gw.URL+"/k", nil))
	if got.Status != 421 || ran.Load() != 1 || got.Header.Get("Tenure-Refused") != "" {
		t.Errorf("got %d after %d runs with headers %v, want the handler's 421 after one, without Tenure-Refused", got.Status, ran.Load(), got.Header)
	}
}

func TestFailedDialIsTriedElsewhere(t *testing.T) {
	for _, size := range []int{0, 10, 1 << 20} {
		g := newGroup(t, 1)
		g.peer("c", &fakeNode{}, HTTPConfig{}, says("c"))
		gone, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		gone.Close()
		g.join(shard.Member{ID: "b", Address: gone.Addr().String()})
		tr := newTestTransport(t)
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				g.claim("c", 0)
			}
			return conn, err
		}
		gw := g.gateway(HTTPConfig{Transport: tr})
		g.claim("b", 0)
		gw.shows(t, "b")
		body := strings.Repeat("x", size)
		got := do(t, request(t, "POST", gw.URL+"/k", strings.NewReader(body)))
		if want := strings.TrimSpace("c got " + body); got.Body != want {
			t.Errorf("body of %d: got %d and %d bytes, want c's answer of %d", size, got.Status, len(got.Body), len(want))
		}
	}
}

// A handshake that fails has sent nothing of the request either.
func TestFailedHandshakeIsTriedElsewhere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var dialed atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			dialed.Add(1)
			conn.Close()
		}
	}()
	g := newGroup(t, 1)
	g.join(shard.Member{ID: "b", Address: l.Addr().String()})
	gw := g.gateway(HTTPConfig{Scheme: "https", Tries: 2})
	g.claim("b", 0)
	gw.shows(t, "b")
	got := do(t, request(t, "POST", gw.URL+"/k", nil))
	if got.Status != 503 || dialed.Load() != 2 {
		t.Errorf("got %d after %d dials, want 503 after 2", got.Status, dialed.Load())
	}
}

func TestNobodyOwns(t *testing.T) {
	g := newGroup(t, 1)
	a := g.peer("a", &fakeNode{enter: knowsNobody, wait: 50 * time.Millisecond}, HTTPConfig{}, never(t, "a"))
	began := time.Now()
	got := do(t, request(t, "POST", a.URL+"/k", nil))
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("gave up after %v, want a wait of 50ms for an owner", took)
	}
	if got.Status != 503 || got.Header.Get("Retry-After") != "1" || got.Header.Get("Tenure-Outcome") != "not-applied" {
		t.Errorf("got %+v, want 503 with Retry-After, not applied", got)
	}
}

func TestOwnerAppearsMeanwhile(t *testing.T) {
	g := newGroup(t, 1)
	g.peer("b", &fakeNode{}, HTTPConfig{}, says("b"))
	a := g.peer("a", &fakeNode{enter: func(ctx context.Context, key string) (context.Context, func(), error) {
		g.claim("b", 0)
		return knowsNobody(ctx, key)
	}}, HTTPConfig{}, never(t, "a"))
	if got := do(t, request(t, "GET", a.URL+"/k", nil)); got.Body != "b got" {
		t.Errorf("got %+v, want b's answer", got)
	}
}

// Prefixes that middleware strips here are stripped at the owner too, so the request must have them again.
func TestForwardsPathAsItCame(t *testing.T) {
	g := newGroup(t, 1)
	b := g.peer("b", &fakeNode{}, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) })
	gw := g.gateway(HTTPConfig{})
	g.claim("b", 0)
	gw.shows(t, "b")
	front := newServer(t, http.StripPrefix("/k", gw.http.Handler(func(*http.Request) (string, error) { return "k", nil }, never(t, "gateway"))))
	if got := do(t, request(t, "GET", front+"/k/balance?at=now", nil)); got.Body != "/k/balance?at=now" {
		t.Errorf("b (%s) got %q, want /k/balance?at=now", b.Address, got.Body)
	}
}
