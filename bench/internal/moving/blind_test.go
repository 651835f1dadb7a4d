package moving

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The count can see what it is about: a hole, and a record twice; and the gap between two members.
func TestLog_SeesLostAndDoubled(t *testing.T) {
	records := func(offset int64) []*kgo.Record { return []*kgo.Record{{Offset: offset}} }
	l := &log{}
	for _, offset := range []int64{3, 4, 6, 6} {
		l.consumed("a", records(offset))
	}
	if r := l.sum([Parts]int64{9}); r.Work != 4 || r.Lost != 3 || r.Doubled != 1 {
		t.Errorf("got %+v, want a hole and two at the end lost, and one doubled", r)
	}
	if r := l.sum([Parts]int64{7, 5}); r.Lost != 1+5 {
		t.Errorf("got %+v, want a hole lost, and a partition of which nothing was consumed", r)
	}
	l.gaps.begin(leaving)
	l.consumed("b", records(7))
	if got := len(l.sum([Parts]int64{}).Left); got != 1 {
		t.Errorf("got %d gaps, want 1", got)
	}
}

// careless answers that it has done what it has not, and every tenth time with an error.
type careless struct {
	server *httptest.Server
	keys   [Parts]string
	both   atomic.Bool
	asked  atomic.Int64
}

func (c *careless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.asked.Add(1)%10 == 9 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	member := "a"
	for part, key := range c.keys {
		if c.both.Load() && part >= Parts/2 && r.URL.Path == "/parts/"+key {
			member = "b"
		}
	}
	_, _ = w.Write([]byte(member))
}

func (c *careless) join(_ context.Context, member string) error {
	c.both.Store(member == "b")
	return nil
}

func (c *careless) leave(string) error {
	c.both.Store(false)
	return nil
}

func (c *careless) target(int) string { return c.server.Listener.Addr().String() }
func (c *careless) close()            { c.server.Close() }

// What was acknowledged and is not there is lost, and an error is a failed request.
func TestRequests_SeesLostAndFailed(t *testing.T) {
	ctx, endpoint := etcd(t)
	q := &Requests{Etcd: []string{endpoint}, Run: "careless"}
	t.Cleanup(q.Close)
	r, err := q.Try(ctx, Contender{open: func(_ context.Context, cs counters) (served, error) {
		c := &careless{keys: cs.keys}
		c.server = httptest.NewServer(c)
		return c, nil
	}}, "one")
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost < r.Work || r.Work == 0 || r.Failed == 0 {
		t.Errorf("got %+v, want all lost and some failed", r)
	}
}
