package kafka

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

// death is what the kills of one contender's members have shown.
type death struct {
	kind        string
	gaps        []time.Duration // of each partition, from the kill to the first effect of its next owner
	late        []time.Duration // the same, beyond the timeout
	median      time.Duration   // of the latest kill
	kills       int
	twice, lost int64
}

// BenchmarkKill kills one of two processes (SIGKILL) while each partition is produced to every 2 ms, and reports how long each of its partitions rests
// until its next owner's first effect, and how many records had their effect twice: for an owner with its TTL, and for members of both kinds of consumer
// group that write effects and then commit offsets. In 3s the leases and the sessions last equally long, and the groups' heartbeats are a tenth of that;
// in defaults each has its own.
func BenchmarkKill(b *testing.B) {
	b.Run("3s", func(b *testing.B) { benchKill(b, 3*time.Second, 3*time.Second, true) })
	b.Run("defaults", func(b *testing.B) {
		if testing.Short() {
			b.Skip("waits for sessions of 45 s")
		}
		benchKill(b, 10*time.Second, 45*time.Second, false)
	})
}

func benchKill(b *testing.B, ttl, session time.Duration, tuned bool) {
	br := real(b) // kfake has no sessions of their own for groups of KIP-848
	topic := br.topic("kill", orders.Shards)
	defer br.steady(topic)()
	etcd := etcdtest.Start(b, etcdtest.Config{})
	deaths := []*death{{kind: byTenure}, {kind: byCooperative}, {kind: byKIP848}}
	var ratios [2][]float64
	turn := 0
	for b.Loop() {
		for i := range deaths {
			d := deaths[(i+turn)%len(deaths)] // none is always the first
			o := memberOrders{
				Kind: d.kind, Group: name("kill"), Topic: topic, Brokers: os.Getenv("TENURE_TEST_KAFKA"), Etcd: etcd.Endpoint,
				Timeout: session, Tuned: tuned,
			}
			switch d.kind {
			case byTenure:
				o.Timeout = ttl
			case byKIP848:
				if tuned {
					br.groupTimes(o.Group, session, session/10)
				}
			}
			d.kill(b, br, o)
		}
		turn++
		for i := range ratios {
			ratios[i] = append(ratios[i], float64(deaths[0].median)/float64(deaths[i+1].median))
		}
	}
	for _, d := range deaths {
		slices.Sort(d.gaps)
		b.ReportMetric(float64(d.gaps[len(d.gaps)/2].Milliseconds()), d.kind+"-p50-ms")
		b.ReportMetric(float64(slices.Max(d.gaps).Milliseconds()), d.kind+"-max-ms")
		b.ReportMetric(float64(slices.Max(d.late).Milliseconds()), d.kind+"-beyond-timeout-ms")
		b.ReportMetric(float64(d.twice)/float64(d.kills), d.kind+"-twice/kill")
		b.ReportMetric(float64(d.lost)/float64(d.kills), d.kind+"-lost/kill")
	}
	for i, r := range ratios {
		b.ReportMetric(median(r), "tenure/"+deaths[i+1].kind)
	}
}

// steady produces to each partition every 2 ms, until stop.
func (b *brokers) steady(topic string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	producer := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var load sync.WaitGroup
	load.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			for p := range orders.Shards {
				producer.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(p), Key: []byte("k"), Value: make([]byte, 100)}, nil)
			}
		}
	})
	return func() {
		cancel()
		load.Wait()
	}
}

// kill has two processes share the topic, kills one, and waits until the other has all.
func (d *death) kill(b *testing.B, br *brokers, o memberOrders) {
	b.Helper()
	e := &Effects{parts: make(map[int32]*effect)}
	addr, stop := e.serve(b)
	defer stop()
	o.Database = addr
	stays, dies := o.start(b, "stays"), o.start(b, "dies")
	defer func() {
		stays.kill()
		dies.kill()
		if b.Failed() {
			b.Logf("%s: the one that stays said:\n%s", d.kind, stays.log)
		}
	}()
	awaited := func(what string, met func() bool) {
		b.Helper()
		within(b, 2*o.Timeout+patience, d.kind+": "+what, met)
	}
	awaited("both consume", func() bool {
		n := e.shares()
		return n["stays"] == orders.Shards/2 && n["dies"] == orders.Shards/2
	})
	if d.kind != byTenure {
		br.mustBe(o.Group, d.kind == byKIP848)
	}
	// The next sign of life may be due now or only then: the kill comes at any moment in between.
	moment := time.Now().Add(rand.N(o.Timeout / 3))
	awaited("the moment", func() bool { return time.Now().After(moment) })
	parts := e.kill("dies")
	dies.kill()
	awaited("what has moved is consumed", func() bool { return len(e.gaps(parts)) == len(parts) })
	gaps := e.gaps(parts)
	slices.Sort(gaps)
	d.median = gaps[len(gaps)/2]
	d.gaps = append(d.gaps, gaps...)
	d.late = append(d.late, slices.Max(gaps)-o.Timeout)
	d.kills++
	e.mu.Lock()
	defer e.mu.Unlock()
	d.twice += e.twice
	d.lost += e.lost
}
