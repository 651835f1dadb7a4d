package idem_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
)

// An operation over memory, its parts and its replay. "two commits" is what the store alone takes for
// a claim and a finish: the same changes of the same keys.
func BenchmarkDo(b *testing.B) {
	nothing := func(context.Context, *idem.Op) (int, error) { return 1, nil }
	b.Run("two commits", func(b *testing.B) {
		s := memkv.New()
		defer s.Close()
		lease, err := s.Grant(b.Context(), 24*time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		value, id := make([]byte, 200), strings.Repeat("i", 52)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			id := id + strconv.Itoa(i)
			record, attempt, result := "/records/"+id, "/attempts/"+id, "/results/"+id
			rev, err := s.Commit(b.Context(), cas.Txn{
				If:   []cas.Cond{cas.Absent(record), cas.Absent(attempt), cas.Absent(result)},
				Then: []cas.Op{cas.PutLeased(record, value, lease.ID), cas.PutLeased(attempt, value[:5], lease.ID), cas.Delete(result)},
			})
			if err == nil {
				_, err = s.Commit(b.Context(), cas.Txn{
					If:   []cas.Cond{cas.AtRev(record, rev)},
					Then: []cas.Op{cas.PutLeased(record, value, lease.ID), cas.Delete(attempt), cas.PutLeased(result, value[:1], lease.ID)},
				})
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

// What the middleware adds is "first" less "bare" and "Do", which is the same operation by itself, with what
// is kept of the answer as its result. It does not go through HTTP: of a server and a connection neither
// has the cost.
func BenchmarkHTTP(b *testing.B) {
	const answer = `{"id":"1"}`
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer)
	})
	body := strings.Repeat("x", 200)
	kept := idem.Answer{
		Status: http.StatusCreated, Header: map[string][][]byte{"Content-Type": {[]byte("application/json")}}, Body: []byte(answer),
	}
	target, err := url.Parse("/orders")
	if err != nil {
		b.Fatal(err)
	}
	print := idem.Fingerprint([]byte(body))
	middleware := func(e *idem.Engine) http.Handler { return idem.HTTP(e, idem.HTTPConfig{Scope: tenant})(handler) }
	do := func(e *idem.Engine) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			q := idem.Request{Scope: r.Header["Tenant"][0], Key: r.Header["Idempotency-Key"][0], Fingerprint: print}
			_, err := idem.Do(r.Context(), e, q, func(context.Context, *idem.Op) (idem.Answer, error) { return kept, nil })
			if err != nil {
				b.Error(err)
			}
		})
	}
	same := func(int) string { return "k" }
	for _, bench := range []struct {
		name string
		h    func(*idem.Engine) http.Handler
		key  func(i int) string
	}{
		{"bare", func(*idem.Engine) http.Handler { return handler }, strconv.Itoa},
		{"Do", do, strconv.Itoa},
		{"first", middleware, strconv.Itoa},
		{"Do, replay", do, same},
		{"replay", middleware, same},
	} {
		b.Run(bench.name, func(b *testing.B) {
			h := bench.h(newEngine(b, idem.Config{}))
			ctx := b.Context()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r := (&http.Request{
					Method: http.MethodPost, URL: target, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
					Header: http.Header{"Tenant": {"a"}, "Idempotency-Key": {bench.key(i)}, "Content-Type": {"text/plain"}},
				}).WithContext(ctx)
				h.ServeHTTP(&nowhere{make(http.Header)}, r)
			}
		})
	}
}
