package moving

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/bench/internal/broker"
	"github.com/tenure-go/tenure/bench/internal/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func etcd(t *testing.T) (context.Context, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	endpoint, stop, err := embedded.Start(ctx, t.TempDir()+"/etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return ctx, endpoint
}

// Half of the parts move to the one that stays, and back, and nothing is lost on the way.
func TestRequests(t *testing.T) {
	ctx, endpoint := etcd(t)
	q := &Requests{Etcd: []string{endpoint}, Run: "test"}
	t.Cleanup(q.Close)
	for _, c := range Contenders() {
		t.Run(c.Name, func(t *testing.T) {
			r, err := q.Try(ctx, c, map[bool]string{true: "ours", false: "theirs"}[c.Ours])
			if err != nil {
				t.Fatal(err)
			}
			check(t, r)
			t.Logf("%+v", r)
		})
	}
}

func TestRecords(t *testing.T) {
	ctx, endpoint := etcd(t)
	b, stop, err := broker.Fake()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	q := &Records{Broker: b, Etcd: []string{endpoint}, Run: "test"}
	for i, c := range Consumers(b) {
		if c.Slow {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			r, err := q.Try(ctx, c, string(rune('a'+i)))
			if err != nil {
				t.Fatal(err)
			}
			check(t, r)
			t.Logf("%+v", r)
		})
	}
}

func check(t *testing.T, r Result) {
	t.Helper()
	if len(r.Left) != Parts/2 || len(r.Joined) != Parts/2 {
		t.Errorf("got %d parts that moved away and %d that moved back, want half of %d each", len(r.Left), len(r.Joined), Parts)
	}
	if r.Work == 0 || r.Lost != 0 || r.Doubled != 0 || r.Failed != 0 {
		t.Errorf("got %+v, want nothing lost, doubled or failed", r)
	}
}
