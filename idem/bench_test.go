package idem_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
)

// An operation over memory, its parts and its replay. "two commits" is what the store alone takes for
// a claim and a finish.
func BenchmarkDo(b *testing.B) {
	nothing := func(context.Context, *idem.Op) (int, error) { return 1, nil }
	b.Run("two commits", func(b *testing.B) {
		s := memkv.New()
		defer s.Close()
		value := make([]byte, 200)
		for i := 0; b.Loop(); i++ {
			key := strconv.Itoa(i)
			rev, err := s.Commit(b.Context(), cas.Txn{If: []cas.Cond{cas.Absent(key)}, Then: []cas.Op{cas.Put(key, value)}})
			if err == nil {
				_, err = s.Commit(b.Context(), cas.Txn{If: []cas.Cond{cas.AtRev(key, rev)}, Then: []cas.Op{cas.Put(key, value)}})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first", func(b *testing.B) {
		e := newEngine(b, idem.Config{})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := idem.Do(b.Context(), e, idem.Request{Scope: "a", Key: strconv.Itoa(i)}, nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one step", func(b *testing.B) {
		e := newEngine(b, idem.Config{})
		for i := 0; b.Loop(); i++ {
			_, err := idem.Do(b.Context(), e, idem.Request{Scope: "a", Key: strconv.Itoa(i)}, func(ctx context.Context, op *idem.Op) (int, error) {
				return idem.Step(ctx, op, "step", func(context.Context, string) (int, error) { return 1, nil })
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("replay", func(b *testing.B) {
		e := newEngine(b, idem.Config{})
		b.ReportAllocs()
		for b.Loop() {
			if _, err := idem.Do(b.Context(), e, idem.Request{Scope: "a", Key: "a"}, nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// nowhere is a ResponseWriter that costs nothing.
type nowhere struct{ h http.Header }

func (w *nowhere) Header() http.Header         { return w.h }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(int)             {}

// A handler with the middleware and without.
func BenchmarkHTTP(b *testing.B) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"id":"1"}`)
	})
	body := strings.Repeat("x", 200)
	for _, bench := range []struct {
		name string
		h    func(*idem.Engine) http.Handler
		key  func(i int) string
	}{
		{"bare", func(*idem.Engine) http.Handler { return handler }, strconv.Itoa},
		{"first", func(e *idem.Engine) http.Handler { return idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(handler) }, strconv.Itoa},
		{"replay", func(e *idem.Engine) http.Handler { return idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(handler) }, func(int) string { return "k" }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			h := bench.h(newEngine(b, idem.Config{}))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
				r.Header["Idempotency-Key"] = []string{bench.key(i)}
				r.Header["Tenant"] = []string{"a"}
				h.ServeHTTP(&nowhere{make(http.Header)}, r)
			}
		})
	}
}
