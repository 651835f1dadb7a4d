package writer_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

// sum is an Apply in memory: what it costs is the Writer's.
func sum(context.Context, *owner.Tenure) (writer.Apply[int64, int64], error) {
	var n int64
	return func(_ context.Context, batch []*writer.Cmd[int64, int64]) error {
		for _, c := range batch {
			n += c.Value
			c.Reply(n)
		}
		return nil
	}, nil
}

// adder is a goroutine that one makes channel round trips to, for comparison.
type adder struct{ requests chan *addition }

type addition struct {
	value int64
	reply chan int64
}

func startAdder(b *testing.B) *adder {
	a := &adder{requests: make(chan *addition)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var n int64
		for r := range a.requests {
			n += r.value
			r.reply <- n
		}
	}()
	b.Cleanup(func() { close(a.requests); <-done })
	return a
}

// trips returns a function that makes n round trips over unbuffered channels.
func (a *adder) trips() func(n int) error {
	r := &addition{value: 1, reply: make(chan int64)}
	return func(n int) error {
		for range n {
			a.requests <- r
			<-r.reply
		}
		return nil
	}
}

// BenchmarkDo is submit and wait in memory beside round trips over unbuffered channels to one goroutine, by as many
// producers. The two take turns in short rounds, so that what else the machine does hits both. The ratio is that of their
// medians: time of Do by time of a round trip.
func BenchmarkDo(b *testing.B) {
	w := writer.New(sum, writer.Config{})
	c := ownertest.Start(b, 1, shard.Group{Name: "sums", Shards: 1}, w.Serve, owner.Config{})
	t := c.Tenure("a")
	a := startAdder(b)
	cancelable, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, kind := range []struct {
		name string
		ctx  context.Context
	}{{"background", context.Background()}, {"cancelable", cancelable}} { // one for all, the worst case: they share its channel's lock
		do := func() func(int) error {
			return func(n int) error {
				for range n {
					if _, err := w.Do(kind.ctx, t, 1); err != nil {
						return err
					}
				}
				return nil
			}
		}
		for _, producers := range []int{1, 4, 16, 64} {
			b.Run(fmt.Sprintf("%s/producers=%d", kind.name, producers), func(b *testing.B) {
				b.ReportAllocs()
				paired(b, producers, do, a.trips)
			})
		}
	}
}

// paired times b.N calls by each of two kinds of workers, in rounds.
func paired(b *testing.B, producers int, ours, theirs func() func(n int) error) {
	const round = 4096
	var took [2][]float64 // ns a call
	kinds := [2]func() func(int) error{ours, theirs}
	for done, turn := 0, 0; done < b.N; turn++ {
		n := min(round, b.N-done)
		if turn == 0 {
			n = min(n, producers) // the first costs what starting costs
		}
		n = max(1, n/producers)
		for i := range kinds {
			k := (i + turn) % 2
			if k == 1 {
				b.StopTimer() // ns/op and allocs/op are those of Do
			}
			start := time.Now()
			share(b, producers, n, kinds[k])
			ns := float64(time.Since(start)) / float64(n*producers)
			if k == 1 {
				b.StartTimer()
			}
			if turn > 0 || b.N == 1 {
				took[k] = append(took[k], ns)
			}
		}
		done += n * producers
	}
	if len(took[0]) == 0 {
		return
	}
	do, trip := median(took[0]), median(took[1])
	b.ReportMetric(0, "ns/op") // it has the rounds' beginnings and ends in it
	b.ReportMetric(do, "Do-ns")
	b.ReportMetric(trip, "trip-ns")
	b.ReportMetric(do/trip, "Do/trip")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// share has so many workers make n calls each.
func share(b *testing.B, workers, n int, kind func() func(int) error) {
	var all sync.WaitGroup
	for range workers {
		run := kind()
		all.Go(func() {
			if err := run(n); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}
