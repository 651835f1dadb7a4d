package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/internal/integration/etcdtest"
	"github.com/tenure-go/tenure/owner"
)

// BenchmarkHandoff moves one shard back and forth between two nodes, on an etcd that writes through to the disk, while a
// client calls without pause. The gap is the longest time between two answers that the client got around a
// move; the floor, measured in turn with it, is two commits and two watch deliveries, one after another.
func BenchmarkHandoff(b *testing.B) {
	b.Run("1 member", func(b *testing.B) { benchmarkHandoff(b, etcdtest.Start(b, etcdtest.Config{Fsync: true})) })
	b.Run("3 members", func(b *testing.B) { benchmarkHandoff(b, startMembers(b, 3)) })
}

func benchmarkHandoff(b *testing.B, e *etcdtest.Server) {
	f := startFleet(b, e, 2, serve, owner.Config{TTL: 10 * time.Second})
	client := e.Client(b)
	watch := client.Watch(b.Context(), "/floor")
	s := bank.Of("alice")

	answers := make(chan time.Time, 1<<16)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go func() {
		defer close(answers)
		for ctx.Err() == nil {
			if err := f.do(ctx, "alice", func(context.Context, *owner.Tenure) error { return nil }); err != nil && ctx.Err() == nil {
				b.Errorf("the client got %v", err)
				return
			}
			select {
			case answers <- time.Now():
			default: // the reader is behind; what it has not read yet tells as much
			}
		}
	}()
	var gaps, floors []time.Duration
	to := 0
	for b.Loop() {
		to = 1 - to
		before := served(f.nodes[to])[s]
		if err := f.admin.Pin(ctx, s, fmt.Sprintf("node-%d", to)); err != nil {
			b.Fatal(err)
		}
		await(b, "the move", func() bool { return served(f.nodes[to])[s] > before })
		gaps = append(gaps, longest(answers))
		floors = append(floors, floor(b, client, watch))
		longest(answers)
	}
	stop()
	for range answers {
	}
	for _, p := range []int{50, 99} {
		gap, fl := percentile(gaps, p), percentile(floors, p)
		b.ReportMetric(float64(gap)/1e6, fmt.Sprintf("gap-p%d-ms", p))
		b.ReportMetric(float64(fl)/1e6, fmt.Sprintf("floor-p%d-ms", p))
		b.ReportMetric(float64(gap)/float64(percentile(floors, 50)), fmt.Sprintf("p%d/floor", p))
	}
}

// longest reads what has been answered up to now, and returns the longest time between two answers.
func longest(answers <-chan time.Time) time.Duration {
	var last time.Time
	var most time.Duration
	for until := time.Now(); ; {
		at, ok := <-answers
		if !ok || at.After(until) {
			return most
		}
		if !last.IsZero() {
			most = max(most, at.Sub(last))
		}
		last = at
	}
}

// floor is how long two commits and the news of each at a watcher take.
func floor(b *testing.B, c *clientv3.Client, watch clientv3.WatchChan) time.Duration {
	start := time.Now()
	for range 2 {
		if _, err := c.Put(b.Context(), "/floor", "x"); err != nil {
			b.Fatal(err)
		}
		<-watch
	}
	return time.Since(start)
}

func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*p/100)]
}
