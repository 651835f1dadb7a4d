package kafka

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
)

// benchBrokers is the real broker where there is one. What kfake shows is only that the benchmark runs.
func benchBrokers(b *testing.B) *brokers {
	if os.Getenv("TENURE_TEST_KAFKA") == "" {
		return fake(b)
	}
	return real(b)
}

// work is the handler of both contenders: it looks at every byte. Its clock runs from when all partitions are consumed: an owner's shards come one by one.
type work struct {
	sum   atomic.Uint64
	count atomic.Int64
	want  int64
	all   chan struct{}

	seen   [16]atomic.Bool // by partition
	yet    atomic.Int32    // partitions that were not seen yet
	before atomic.Int64    // records until then
	began  atomic.Int64    // in Unix nanoseconds
	ended  atomic.Int64
}

func newWork(want int64) *work {
	w := &work{want: want, all: make(chan struct{})}
	w.yet.Store(int32(orders.Shards))
	return w
}

func (w *work) do(recs []*kgo.Record) {
	if p := recs[0].Partition; !w.seen[p].Load() && !w.seen[p].Swap(true) && w.yet.Add(-1) == 0 {
		w.before.Store(w.count.Load())
		w.began.Store(time.Now().UnixNano())
	}
	var sum uint64
	for _, r := range recs {
		sum += xxhash.Sum64(r.Value)
	}
	w.sum.Add(sum)
	if w.count.Add(int64(len(recs))) == w.want {
		w.ended.Store(time.Now().UnixNano())
		close(w.all)
	}
}

// rate is in records a second.
func (w *work) rate() float64 {
	return float64(w.want-w.before.Load()) / time.Duration(w.ended.Load()-w.began.Load()).Seconds()
}

// BenchmarkConsume reads a topic of 1 KiB records from its start, through Tenure and by a bare client whose loop calls the same handler with batches of the
// same partition and size, turn by turn. Neither stores positions, which is the handler's database's work and the same for both. The time is that from when
// all partitions are consumed to the last batch, and cpu what the process has used in a turn, kgo's part and the collector's included; reported are medians.
func BenchmarkConsume(b *testing.B) {
	br := benchBrokers(b)
	n := 200_000
	if br.fake != nil {
		n = 20_000
	}
	topic := br.topic("bench", orders.Shards)
	producer := br.client(kgo.RecordPartitioner(kafka.Partitioner(orders)), kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(n), kgo.ProducerBatchCompression(kgo.NoCompression()))
	var recs []*kgo.Record
	for i := range n {
		value := make([]byte, 1<<10)
		copy(value, fmt.Sprint(i))
		recs = append(recs, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%1000), Value: value})
	}
	produce(b, producer, recs...)
	recs = nil
	for _, size := range []int{500, 10} {
		b.Run(fmt.Sprintf("batches of %d", size), func(b *testing.B) { consumes(b, br, topic, n, size) })
	}
}

func consumes(b *testing.B, br *brokers, topic string, n, size int) {
	contenders := []struct {
		name string
		run  func(*work)
	}{
		{"tenure", func(w *work) { throughTenure(b, br, topic, size, w) }},
		{"kgo", func(w *work) { byItself(b, br, topic, size, w) }},
	}
	var rates, costs [2][]float64
	var ratios, dearer []float64
	for b.Loop() {
		var rate, cost [2]float64
		for i := range contenders {
			i = (i + len(ratios)) % len(contenders) // neither is always the first
			w := newWork(int64(n))
			runtime.GC() // of what the one before has left
			used := cpu()
			contenders[i].run(w)
			cost[i] = float64((cpu() - used).Microseconds()) / float64(n)
			rate[i] = w.rate()
			rates[i], costs[i] = append(rates[i], rate[i]), append(costs[i], cost[i])
		}
		ratios = append(ratios, rate[0]/rate[1])
		dearer = append(dearer, cost[0]/cost[1])
	}
	for i, c := range contenders {
		b.ReportMetric(median(rates[i]), c.name+"-records/s")
		b.ReportMetric(median(costs[i]), c.name+"-cpu-µs/record")
	}
	b.ReportMetric(median(ratios), "tenure/kgo") // of each turn: what else the machine does changes from turn to turn
	b.ReportMetric(ratios[len(ratios)/4], "tenure/kgo-quartile")
	b.ReportMetric(median(dearer), "tenure/kgo-cpu")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func throughTenure(b *testing.B, br *brokers, topic string, size int, w *work) {
	f := newFleet(b, orders)
	c := br.config()
	c.MaxBatch = size
	n := f.join(topic, func(context.Context, *owner.Tenure) (kafka.Partition, error) {
		return kafka.Partition{From: 0, Process: func(_ context.Context, recs []*kgo.Record) error {
			w.do(recs)
			return nil
		}}, nil
	}, c)
	<-w.all
	f.stop(n)
}

func byItself(b *testing.B, br *brokers, topic string, size int, w *work) {
	at := make(map[int32]kgo.Offset)
	for p := range orders.Shards {
		at[int32(p)] = kgo.NewOffset().At(0)
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at})}, br.opts...)...)
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	for w.ended.Load() == 0 {
		cl.PollFetches(b.Context()).EachPartition(func(p kgo.FetchTopicPartition) {
			for recs := range slices.Chunk(p.Records, size) {
				w.do(recs)
			}
		})
	}
}

// gaps watches when each partition's records are processed, and by whom.
type gaps struct {
	mu   sync.Mutex
	last map[int32]seen
	took []time.Duration // from the last record at one member to the first at another
}

type seen struct {
	member string
	at     time.Time
}

func (g *gaps) saw(member string, recs []*kgo.Record) {
	if len(recs) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p, now := recs[0].Partition, time.Now()
	if was, ok := g.last[p]; ok && was.member != member {
		g.took = append(g.took, now.Sub(was.at))
	}
	g.last[p] = seen{member, now}
}

func (g *gaps) moved() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.took)
}

// BenchmarkGap has one of two members leave in good order while each partition is produced to every 2 ms, and reports how long a partition that moves
// is not consumed: the median and the worst.
func BenchmarkGap(b *testing.B) {
	br := benchBrokers(b)
	topic := br.topic("gap", orders.Shards)
	b.Cleanup(br.steady(topic))
	for _, c := range []struct {
		name  string
		leave func(*testing.B, *gaps, string)
	}{
		{"tenure", func(b *testing.B, g *gaps, _ string) { leaveTenure(b, br, topic, g) }},
		{"cooperative-sticky", func(b *testing.B, g *gaps, group string) { leaveGroup(b, br, topic, group, g) }},
		{"cooperative-sticky-tuned", func(b *testing.B, g *gaps, group string) {
			leaveGroup(b, br, topic, group, g, kgo.HeartbeatInterval(100*time.Millisecond), kgo.FetchMaxWait(20*time.Millisecond))
		}},
		{"kip-848", func(b *testing.B, g *gaps, group string) {
			leaveGroup(b, br, topic, group, g, kgo.GroupProtocol("consumer"))
		}},
		{"kip-848-tuned", func(b *testing.B, g *gaps, group string) {
			leaveGroup(b, br, topic, group, g, kgo.GroupProtocol("consumer"), kgo.FetchMaxWait(20*time.Millisecond))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := &gaps{last: make(map[int32]seen)}
			for b.Loop() {
				g.mu.Lock()
				clear(g.last)
				g.mu.Unlock()
				c.leave(b, g, name("group"))
			}
			slices.Sort(g.took)
			if len(g.took) == 0 {
				b.Fatal("no partition has moved")
			}
			b.ReportMetric(float64(g.took[len(g.took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(g.took[len(g.took)-1].Microseconds())/1000, "max-ms")
			b.ReportMetric(float64(len(g.took))/float64(b.N), "moved/op")
		})
	}
}

func leaveTenure(b *testing.B, br *brokers, topic string, g *gaps) {
	f := newFleet(b, orders)
	l := newLedger()
	join := func(member string) *node {
		c := br.config()
		c.AnyKey, c.Start = true, kafka.Start{Latest: true}
		return f.join(topic, func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
			p, err := l.open(ctx, t)
			advance := p.Advance
			p.Process = func(ctx context.Context, recs []*kgo.Record) error {
				g.saw(member, recs)
				return advance(ctx, kafka.Next(recs))
			}
			return p, err
		}, c)
	}
	stays, leaves := join("a"), join("b")
	f.settle(stays, leaves)
	awaitAll(b, g)
	before := g.moved()
	f.stop(leaves)
	until(b, "what has moved is consumed", func() bool { return g.moved()-before >= orders.Shards/2 })
	f.stop(stays)
}

func leaveGroup(b *testing.B, br *brokers, topic, group string, g *gaps, opts ...kgo.Opt) {
	ctx, stop := context.WithCancel(context.Background())
	var members sync.WaitGroup
	defer members.Wait()
	defer stop()
	join := func(member string) (leave func()) {
		cl, err := kgo.NewClient(append(append([]kgo.Opt{
			kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.DisableAutoCommit(),
		}, br.opts...), opts...)...)
		if err != nil {
			b.Fatal(err)
		}
		own, end := context.WithCancel(ctx)
		done := make(chan struct{})
		members.Go(func() {
			defer close(done)
			for own.Err() == nil {
				fetches := cl.PollFetches(own)
				fetches.EachPartition(func(p kgo.FetchTopicPartition) { g.saw(member, p.Records) })
				if fetches.NumRecords() > 0 {
					_ = cl.CommitUncommittedOffsets(own)
				}
			}
			cl.Close() // leaves the group
		})
		return func() {
			end()
			<-done
		}
	}
	stays, leaves := join("a"), join("b")
	awaitAll(b, g)
	before := g.moved()
	leaves()
	until(b, "what has moved is consumed", func() bool { return g.moved()-before >= orders.Shards/2 })
	stays()
}

// awaitAll waits until each partition is being consumed, by both members.
func awaitAll(b *testing.B, g *gaps) {
	until(b, "both consume", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		n := 0
		for _, s := range g.last {
			if s.member == "b" {
				n++
			}
		}
		return len(g.last) == orders.Shards && n == orders.Shards/2
	})
}
