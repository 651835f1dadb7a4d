package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newTestDesk asks a node that answers as handler does.
func newTestDesk(t *testing.T, handler http.HandlerFunc) *desk {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	d := newDesk()
	t.Cleanup(d.http.CloseIdleConnections)
	d.add(strings.TrimPrefix(server.URL, "http://"))
	return d
}

// What fails is counted where it was asked, or as the kill's if there was one meanwhile; and one that may be asked again apart from
// one that was cut off.
func TestDesk(t *testing.T) {
	var d *desk
	answers := map[string]http.HandlerFunc{
		"/good":    func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) },
		"/unknown": http.NotFound,
		"/later": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Tenure-Outcome", "not-applied")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"/broken": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"/killed": func(w http.ResponseWriter, _ *http.Request) {
			d.begin(killed)
			w.WriteHeader(http.StatusInternalServerError)
		},
	}
	d = newTestDesk(t, func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Path](w, r) })
	ask := func(path string) {
		var v statement
		asked, err := d.get(t.Context(), path, &v)
		if err == errUnknown {
			err = nil
		}
		d.note(asked, time.Second, err, false)
	}
	d.begin(leaving)
	for _, path := range []string{"/good", "/unknown", "/later", "/broken"} {
		ask(path)
	}
	d.begin(joining)
	ask("/killed")
	ask("/good")
	type counts struct{ answered, putOff, broken int }
	got := make(map[act]counts)
	for _, a := range []act{calm, leaving, killed, joining} {
		tl := d.tally(a)
		got[a] = counts{tl.answered, tl.putOff, tl.broken}
	}
	want := map[act]counts{calm: {}, leaving: {2, 1, 1}, killed: {1, 0, 1}, joining: {}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An answer that has fewer records than one before it is noticed.
func TestDeskNoticesOldAnswers(t *testing.T) {
	for what, tc := range map[string]struct {
		orders []int64 // one answer after another
		want   int
	}{
		"they grow":       {[]int64{0, 1, 1, 5}, 0},
		"one goes back":   {[]int64{0, 2, 1, 5}, 1},
		"it stays behind": {[]int64{4, 3, 3, 5}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			var n atomic.Int64
			enough := make(chan struct{})
			d := newTestDesk(t, func(w http.ResponseWriter, _ *http.Request) {
				i := n.Add(1) - 1
				if i == int64(len(tc.orders)) {
					close(enough)
				}
				last := min(i, int64(len(tc.orders))-1)
				_ = json.NewEncoder(w).Encode(statement{account: account{Orders: tc.orders[last]}})
			})
			done := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { d.ask(ctx, []string{"ann"}); close(done) }()
			<-enough
			cancel()
			<-done
			if d.stale != tc.want {
				t.Errorf("got %d old answers, want %d", d.stale, tc.want)
			}
		})
	}
}
