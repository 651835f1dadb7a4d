package idemtest

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/idem"
)

func (x *fixture) id(name string) string {
	return fmt.Sprintf("%x", idem.Fingerprint([]byte(x.scope), []byte(name)))[:52]
}

// plain is a Put of no attempt.
func plain(head string) idem.Put { return idem.Put{Head: []byte(head), Forget: time.Hour} }

func swap(t testing.TB, s idem.Store, id string, rev int64, p idem.Put) int64 {
	t.Helper()
	n, err := s.Swap(t.Context(), id, rev, p)
	if err != nil {
		t.Fatalf("Swap over %d: %v", rev, err)
	}
	if n == 0 || n == rev {
		t.Fatalf("Swap over %d: got revision %d, want another", rev, n)
	}
	return n
}

// conflict checks that err is a *ConflictError as it is, and that head is there.
func conflict(t testing.TB, err error, head string) idem.Record {
	t.Helper()
	c, ok := err.(*idem.ConflictError)
	if !ok {
		t.Fatalf("got %v, want a *ConflictError, not wrapped", err)
	}
	if got := string(c.Current.Head); got != head {
		t.Errorf("current head: got %q, want %q", got, head)
	}
	return c.Current
}

func testSwap(t *testing.T, x *fixture) {
	a, b, id := x.Harness.Open(t), x.Harness.Open(t), x.id("a")
	if r, err := a.Get(t.Context(), id); err != nil || r.Rev != 0 || r.Head != nil {
		t.Fatalf("Get of nothing: got %+v, %v", r, err)
	}
	if _, err := a.Swap(t.Context(), id, 7, plain("x")); err == nil {
		t.Error("Swap over a revision that is not there: got nil")
	} else {
		conflict(t, err, "")
	}
	first := swap(t, a, id, 0, plain("one"))
	_, err := b.Swap(t.Context(), id, 0, plain("two"))
	if r := conflict(t, err, "one"); r.Rev != first {
		t.Errorf("current revision: got %d, want %d", r.Rev, first)
	}
	second := swap(t, b, id, first, plain("two"))
	_, err = a.Swap(t.Context(), id, first, plain("three"))
	conflict(t, err, "two")
	if third := swap(t, a, id, second, plain("one")); third == first {
		t.Error("a revision came back: want each to be new")
	}
	r, err := b.Get(t.Context(), id)
	want(t, string(r.Head), err, "one")
}

func testBytes(t *testing.T, x *fixture) {
	s, id := x.Harness.Open(t), x.id("a")
	p := plain(`{"a":"é\u0000\n'\"?$1","b":"` + "\U0001F600" + `"}`)
	p.Body = []byte("\x00\xff'\"\\ \xc3\x28?")
	p.Replay = time.Minute
	swap(t, s, id, 0, p)
	r, err := s.Get(t.Context(), id)
	if err != nil || !bytes.Equal(r.Head, p.Head) || !bytes.Equal(r.Body, p.Body) || !r.Replayable {
		t.Errorf("got %q, %q, %t, %v, want %q, %q, true", r.Head, r.Body, r.Replayable, err, p.Head, p.Body)
	}
	p.Body = bytes.Repeat([]byte("0123456789abcdef"), 64<<10/16)
	id = x.id("b")
	swap(t, s, id, 0, p)
	_, err = s.Swap(t.Context(), id, 0, p)
	if r := conflict(t, err, string(p.Head)); !bytes.Equal(r.Body, p.Body) || !r.Replayable {
		t.Errorf("a conflict brought a body of %d bytes, replayable: %t; want %d, true", len(r.Body), r.Replayable, len(p.Body))
	}
}

func testOneWinner(t *testing.T, x *fixture) {
	id := x.id("a")
	var stores []idem.Store
	for range 4 {
		stores = append(stores, x.Harness.Open(t))
	}
	rev := int64(0)
	for round := range 3 {
		var won atomic.Int64
		var next atomic.Int64
		var wg sync.WaitGroup
		for i, s := range stores {
			wg.Go(func() {
				n, err := s.Swap(t.Context(), id, rev, plain(fmt.Sprintf("%d of %d", i, round)))
				if err == nil {
					won.Add(1)
					next.Store(n)
				} else if _, ok := err.(*idem.ConflictError); !ok {
					t.Errorf("got %v, want a *ConflictError", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d swaps over revision %d were applied, want 1", round, won.Load(), rev)
		}
		rev = next.Load()
	}
}

func testAttempt(t *testing.T, x *fixture) {
	s, id := x.Harness.Open(t), x.id("a")
	p := plain("held")
	p.Attempt = attempt
	rev := swap(t, s, id, 0, p)
	r, err := s.Get(t.Context(), id)
	if err != nil || r.Attempt <= 0 || r.Attempt > 2*attempt {
		t.Errorf("attempt: got %s, %v, want about %s", r.Attempt, err, attempt)
	}
	if x.Elapse != nil {
		x.Elapse(t, attempt*2/3)
	}
	if err := s.Extend(t.Context(), id, rev, attempt); err != nil {
		t.Fatalf("Extend: %v", err)
	}
	conflict(t, s.Extend(t.Context(), id, rev+1000, attempt), "held")
	if x.Elapse != nil {
		x.Elapse(t, attempt*2/3)
	}
	r, err = s.Get(t.Context(), id)
	if err != nil || r.Attempt <= 0 || r.Rev != rev || string(r.Head) != "held" {
		t.Errorf("after Extend: got %+v, %v, want the record as it was, and an attempt", r, err)
	}
	x.elapse(t, attempt, func() bool {
		r, err = s.Get(t.Context(), id)
		return err == nil && r.Attempt <= 0
	})
	if r.Rev != rev {
		t.Errorf("after the attempt: got revision %d, want %d", r.Rev, rev)
	}
	// Letting go ends an attempt at once.
	p.Head = []byte("again")
	rev = swap(t, s, id, rev, p)
	swap(t, s, id, rev, plain("let go"))
	if r, err = s.Get(t.Context(), id); err != nil || r.Attempt > 0 {
		t.Errorf("after letting go: got %s, %v, want no attempt", r.Attempt, err)
	}
}

// Each of the three ends by itself.
func testThreeClocks(t *testing.T, x *fixture) {
	s, id := x.Harness.Open(t), x.id("a")
	p := idem.Put{Head: []byte("done"), Body: []byte("result"), Replay: 2 * time.Second, Forget: 10 * time.Second}
	if x.Elapse == nil {
		p.Forget = 5 * time.Second
	}
	swap(t, s, id, 0, p)
	r, err := s.Get(t.Context(), id)
	want(t, string(r.Body), err, "result")
	x.elapse(t, 4*time.Second, func() bool {
		r, err = s.Get(t.Context(), id)
		return err == nil && !r.Replayable
	})
	if string(r.Head) != "done" {
		t.Errorf("when the replay has ended: got head %q, want the tombstone", r.Head)
	}
	x.elapse(t, 10*time.Second, func() bool {
		r, err = s.Get(t.Context(), id)
		return err == nil && r.Rev == 0
	})
	swap(t, s, id, 0, plain("anew"))
}
