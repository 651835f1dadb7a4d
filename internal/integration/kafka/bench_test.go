package kafka

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
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
