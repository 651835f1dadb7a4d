package router

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

func newServer(t *testing.T, h http.Handler) (url string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestRequestWithoutKeyIsBad(t *testing.T) {
	g := newGroup(t, 1)
	table, _ := g.open()
	web, err := newHTTP(table, &fakeNode{group: g.decl}, HTTPConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		key  KeyFunc
		want string
	}{
		{"no such wildcard", PathValue("id"), `"id"`},
		{"no header", Header("X-Account"), `"X-Account"`},
		{"removed header", Header("Tenure-Account"), `"Tenure-Account"`},
		{"empty", func(*http.Request) (string, error) { return "", nil }, "empty"},
		{"refused", func(*http.Request) (string, error) { return "", errors.New("not a number") }, "not a number"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Tenure-Account", "k")
		web.Handler(c.key, never(t, c.name)).ServeHTTP(w, r)
		if w.Code != 400 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: got %d %q, want 400 that says %s", c.name, w.Code, w.Body, c.want)
		}
	}
}

func TestRouteOutsideTenure(t *testing.T) {
	g := newGroup(t, 1)
	table, _ := g.open()
	web, err := newHTTP(table, &fakeNode{group: g.decl}, HTTPConfig{}) // its Enter gives no tenure
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	key := func(*http.Request) (string, error) { return "k", nil }
	web.Route(key, func(http.ResponseWriter, *http.Request, *owner.Tenure) { t.Error("ran") }).
		ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
	if w.Code != 503 {
		t.Errorf("got %d, want 503", w.Code)
	}
}

type outcome cas.Outcome

func (o outcome) Error() string        { return "secret detail" }
func (o outcome) Outcome() cas.Outcome { return cas.Outcome(o) }

func TestWriteError(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		status  int
		outcome string
		retry   bool
	}{
		{"nil", nil, 200, "", false},
		{"not applied", outcome(cas.NotApplied), 503, "not-applied", true},
		{"wrapped", fmt.Errorf("saving: %w", outcome(cas.NotApplied)), 503, "not-applied", true},
		{"uncertain", outcome(cas.Uncertain), 500, "uncertain", false},
		{"applied", outcome(cas.Applied), 500, "applied", false},
		{"foreign", errors.New("secret detail"), 500, "uncertain", false},
		{"busy", owner.ErrBusy, 503, "not-applied", true},
		{"another's key", &owner.NotOwnerError{Shard: 3}, 503, "not-applied", true},
		{"lost", &owner.LostError{}, 500, "uncertain", false},
		{"no key", &KeyError{errors.New("no id")}, 400, "", false},
		{"unsent", &ForwardError{}, 503, "not-applied", true},
		{"unanswered", &ForwardError{Sent: true}, 500, "uncertain", false},
		// The handler had read a part of it, so who knows what it did.
		{"limit inside the handler", &http.MaxBytesError{Limit: 3}, 500, "uncertain", false},
		{"limit before", &bodyError{&http.MaxBytesError{Limit: 3}}, 413, "", false},
		{"upgrade to nothing", &upgradeError{errors.New("secret detail")}, 400, "", false},
	} {
		w := httptest.NewRecorder()
		WriteError(w, httptest.NewRequest("POST", "/", nil), c.err)
		if w.Code != c.status || w.Header().Get("Tenure-Outcome") != c.outcome || (w.Header().Get("Retry-After") != "") != c.retry {
			t.Errorf("%s: got %d %v, want %d, outcome %q, retry %v", c.name, w.Code, w.Header(), c.status, c.outcome, c.retry)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: the client is told %q", c.name, w.Body)
		}
	}
}

func TestHTTPConfigFaults(t *testing.T) {
	g := newGroup(t, 4)
	table, _ := g.open()
	same := g.decl.WithDefaults()
	good := &fakeNode{group: same, wait: 5 * time.Second}
	impatient := NewTransport()
	impatient.ExpectContinueTimeout = time.Second
	impatient.ResponseHeaderTimeout = time.Second
	for _, c := range []struct {
		name  string
		table *Table
		node  node
		conf  HTTPConfig
		want  []string // none: it is good
	}{
		{"zero", table, good, HTTPConfig{}, nil},
		{"gateway", table, nil, HTTPConfig{Scheme: "https"}, nil},
		{"own transport", table, good, HTTPConfig{Transport: NewTransport()}, nil},
		{"no table", nil, good, HTTPConfig{}, []string{"needs a table"}},
		{"other group", table, &fakeNode{group: shard.Group{Name: "accounts", Shards: 8}}, HTTPConfig{}, []string{"8 shards", "4 shards"}},
		{
			"all faults at once", table, good,
			HTTPConfig{Transport: impatient, Scheme: "ftp", Tries: -1, Replay: -1},
			[]string{"ExpectContinueTimeout", "ResponseHeaderTimeout", "Scheme", "Tries", "Replay"},
		},
	} {
		_, err := newHTTP(c.table, c.node, c.conf)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want an error: %v", c.name, err, c.want != nil)
		}
		if err != nil && cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: outcome: got %v, want not applied", c.name, cas.OutcomeOf(err))
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want it to say %s", c.name, err, want)
			}
		}
	}
}

func TestDefaultTransportOutwaitsNodes(t *testing.T) {
	c, err := HTTPConfig{}.valid(2 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Transport.(*http.Transport).ExpectContinueTimeout; got <= 2*time.Minute {
		t.Errorf("ExpectContinueTimeout: got %v, want above a WaitTimeout of 2m", got)
	}
}

func TestHealth(t *testing.T) {
	var err error
	h := health("ready", func() error { return err })
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{{nil, 200, "ready\n"}, {errors.New("owner: node is leaving"), 503, "owner: node is leaving\n"}} {
		err = c.err
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code != c.status || w.Body.String() != c.text {
			t.Errorf("got %d %q, want %d %q", w.Code, w.Body, c.status, c.text)
		}
	}
	for _, h := range []http.Handler{Readyz(nil), Livez(nil)} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != 200 {
			t.Errorf("gateway: got %d, want 200", w.Code)
		}
	}
}
