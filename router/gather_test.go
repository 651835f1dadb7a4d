package router_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router"
)

func TestGatherAsksEachOwnerOnce(t *testing.T) {
	s := newCensus(t, ownertest.Start(t, 3, accounts, ready, owner.Config{}), router.GatherConfig{})
	for i, url := range s.urls {
		s.asks.Store(0)
		c := s.ask(url)
		if n := s.asks.Load(); n != 3 || len(c.Parts) != 3 || c.Code != "" {
			t.Errorf("through %d: %d owners were asked, %d answered, %v; want all 3", i, n, len(c.Parts), c.Why)
		}
		for _, p := range c.Parts {
			for _, h := range p.Shards {
				for _, ev := range s.c.Nodes[int(p.Member[len(p.Member)-1]-'0')].Status().Shards {
					if ev.Token.Shard == h.Shard && ev.Token.Epoch != h.Epoch {
						t.Errorf("shard %d: got epoch %v, want %v", h.Shard, h.Epoch, ev.Token.Epoch)
					}
				}
			}
		}
	}
}

// What the client sent is what each part sees, wherever it runs.
func TestGatherCarriesTheRequest(t *testing.T) {
	s := newCensus(t, ownertest.Start(t, 3, accounts, ready, owner.Config{}), router.GatherConfig{})
	var mu sync.Mutex
	saw := make(map[int]string)
	s.part(func(r *http.Request, node int, ts []*owner.Tenure) ([]int, error) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		saw[node] = fmt.Sprint(r.Method, r.URL.RawQuery, " ", r.Header.Get("Authorization"), r.Header.Get("Tenure-Shards"), " ", string(body), err)
		for _, name := range []string{"X-Private", "Accept-Encoding", "If-None-Match", "Proxy-Authorization"} {
			if v := r.Header.Get(name); v != "" && node != 0 { // to which the client is connected
				t.Errorf("node %d saw %s: %q, want none", node, name, v)
			}
		}
		r.Header.Set("Authorization", "changed") // is each part's own
		return shards(ts), nil
	})
	for _, c := range []struct {
		method, body string
		status       int
		want         string
	}{
		{"GET", "", 200, "GETa=b secret <nil>"},
		{"HEAD", "", 200, "GETa=b secret <nil>"},
		{"POST", "which?", 200, "POSTa=b secret which?<nil>"},
		{"POST", strings.Repeat("x", 1001), 413, ""},
	} {
		for _, chunked := range []bool{false, true} {
			clear(saw)
			r, err := http.NewRequest(c.method, s.urls[0]+"/census?a=b", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if chunked && c.body != "" {
				r.ContentLength = -1
			}
			for name, v := range map[string]string{
				"Authorization": "secret", "Connection": "X-Private", "X-Private": "mine", "Tenure-Shards": "forged", "Accept-Encoding": "gzip",
				"If-None-Match": "x", "Proxy-Authorization": "x",
			} {
				r.Header.Set(name, v)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != c.status {
				t.Errorf("%s: got %s, want %d", c.method, res.Status, c.status)
			}
			for node := range 3 {
				if got := saw[node]; got != c.want {
					t.Errorf("%s with a body of %d, chunked %v: node %d saw %q, want %q", c.method, len(c.body), chunked, node, got, c.want)
				}
			}
		}
	}
}

// No shard is counted twice or left out while shards change hands.
func TestGatherDuringMoves(t *testing.T) {
	c := ownertest.Start(t, 3, accounts, ready, owner.Config{})
	s := newCensus(t, c, router.GatherConfig{})
	stop := make(chan struct{})
	var asking sync.WaitGroup
	var complete atomic.Int64
	for i := range s.urls {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := s.ask(s.urls[i]); got.Code != "" {
					t.Errorf("through %d: got %v missing: %v", i, got.Gone, got.Why)
				}
				complete.Add(1)
			}
		})
	}
	for i := range 12 {
		key := fmt.Sprintf("account-%d", i%8)
		was := complete.Load()
		c.Move(key, (c.Owner(key)+1)%3)
		wait(t, "some questions", func() bool { return complete.Load() > was })
	}
	close(stop)
	asking.Wait()
}

// The table is late: the node that is asked says who has the shard by now.
func TestGatherFollowsAMove(t *testing.T) {
	c := ownertest.Start(t, 3, accounts, ready, owner.Config{})
	s := newCensus(t, c, router.GatherConfig{})
	const key = "alice"
	from := c.Owner(key)
	to := (from + 1) % 3
	c.Store.Lag(time.Minute)
	c.Move(key, to)
	s.asks.Store(0)
	got := s.ask(s.urls[3])
	if got.Code != "" {
		t.Errorf("got %v missing: %v", got.Gone, got.Why)
	}
	var by string
	for _, p := range got.Parts {
		if slices.Contains(p.Value, accounts.Of(key)) {
			by = p.Member
		}
	}
	if want := c.Nodes[to].Status().Self.ID; by != want {
		t.Errorf("%s's shard was answered for by %s, want %s", key, by, want)
	}
	if n := s.asks.Load(); n < 4 {
		t.Errorf("%d asks that ran, want one more than there are nodes: was the table late at all?", n)
	}
}

// One node fails in some way: its shards are missing, and all others there.
func TestGatherSaysWhatIsMissing(t *testing.T) {
	c := ownertest.Start(t, 3, accounts, ready, owner.Config{})
	s := newCensus(t, c, router.GatherConfig{Timeout: time.Second, MaxPart: 1000})
	const bad = 1
	for _, f := range []struct {
		name string
		part func(r *http.Request, ts []*owner.Tenure) ([]int, error)
		why  string
	}{
		{"error", func(*http.Request, []*owner.Tenure) ([]int, error) { return nil, errors.New("disk on fire") }, "disk on fire"},
		{"panic", func(*http.Request, []*owner.Tenure) ([]int, error) { panic("at the disk") }, "panicked"},
		{"slow", func(r *http.Request, ts []*owner.Tenure) ([]int, error) {
			<-r.Context().Done()
			return shards(ts), nil // as if nothing were
		}, "deadline exceeded"},
		{"large", func(*http.Request, []*owner.Tenure) ([]int, error) { return make([]int, 1000), nil }, "MaxPart"},
	} {
		for _, through := range []int{bad, 0, 3} {
			s.part(func(r *http.Request, node int, ts []*owner.Tenure) ([]int, error) {
				if node == bad {
					return f.part(r, ts)
				}
				return shards(ts), nil
			})
			got := s.ask(s.urls[through])
			if len(got.Parts) != 2 || len(got.Gone) != 1 || !slices.Equal(got.Gone[0], s.of(bad)) || got.Code != "503" {
				t.Errorf("%s, through %d: got %d parts, %v missing, %s; want 2, and all of node %d's missing", f.name, through, len(got.Parts), got.Gone, got.Code, bad)
			}
			if why := strings.Join(got.Why, ""); !strings.Contains(why, f.why) {
				t.Errorf("%s, through %d: got %q, want it to say %s", f.name, through, why, f.why)
			}
		}
	}
}

// A tenure ends under a part: what it has seen is in doubt, and does not count.
func TestGatherLosesATenure(t *testing.T) {
	c := ownertest.Start(t, 2, accounts, ready, owner.Config{})
	s := newCensus(t, c, router.GatherConfig{Timeout: 20 * time.Second})
	const bad = 0
	s.part(func(r *http.Request, node int, ts []*owner.Tenure) ([]int, error) {
		if node == bad {
			ts[0].Fail(errors.New("given up"))
			<-r.Context().Done()
			if _, ok := errors.AsType[*owner.LostError](context.Cause(r.Context())); !ok {
				t.Errorf("cause: got %v, want a LostError", context.Cause(r.Context()))
			}
		}
		return shards(ts), nil
	})
	for _, url := range s.urls[:2] {
		c.Settle()
		if got := s.ask(url); len(got.Parts) != 1 || !strings.Contains(strings.Join(got.Why, ""), "given up") {
			t.Errorf("got %+v, want the failed node's shards missing", got)
		}
	}
}

// It has ended by the time that the part returns, and its context may say so a moment later.
func TestGatherLosesATenureInTheEnd(t *testing.T) {
	c := ownertest.Start(t, 1, accounts, ready, owner.Config{})
	s := newCensus(t, c, router.GatherConfig{Timeout: 20 * time.Second})
	var once sync.Once
	s.part(func(r *http.Request, node int, ts []*owner.Tenure) ([]int, error) {
		once.Do(func() { ts[0].Fail(errors.New("given up")) })
		return shards(ts), nil
	})
	if got := s.ask(s.urls[0]); len(got.Parts) != 0 || !strings.Contains(strings.Join(got.Why, ""), "given up") {
		t.Errorf("got %+v, want the node's shards missing", got)
	}
}

// A hand-off waits for the parts that read, and they for none that is under way.
func TestGatherHoldsWhatItReads(t *testing.T) {
	c := ownertest.Start(t, 2, accounts, ready, owner.Config{})
	s := newCensus(t, c, router.GatherConfig{})
	from := c.Owner("alice")
	reading, read := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.part(func(r *http.Request, node int, ts []*owner.Tenure) ([]int, error) {
		if node == from {
			once.Do(func() {
				close(reading)
				alice := ts[slices.Index(shards(ts), accounts.Of("alice"))]
				<-alice.Draining()
				select {
				case <-alice.Context().Done():
					t.Errorf("the tenure ended while it was read: %v", alice.Err())
				case <-time.After(100 * time.Millisecond): // in which it would have
				}
				close(read)
			})
		}
		return shards(ts), nil
	})
	answer := make(chan counted)
	go func() { answer <- s.ask(s.urls[1-from]) }()
	<-reading
	c.Move("alice", 1-from)
	select {
	case <-read:
	default:
		t.Error("the shard was handed over before it was read")
	}
	if got := <-answer; got.Code != "" {
		t.Errorf("got %v missing: %v", got.Gone, got.Why)
	}
}

func TestGatherOfNobody(t *testing.T) {
	c := ownertest.Start(t, 1, accounts, ready, owner.Config{})
	s := newCensus(t, c, router.GatherConfig{Timeout: 300 * time.Millisecond})
	s.ask(s.urls[1])
	c.Leave(0)
	began := time.Now()
	wait(t, "the shards are nobody's", func() bool {
		got := s.ask(s.urls[1])
		return len(got.Parts) == 0 && strings.Contains(strings.Join(got.Why, ""), "no owner")
	})
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("gave up after %v, want it to look for owners until Timeout", took)
	}
}
