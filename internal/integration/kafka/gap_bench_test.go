package kafka

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
)

// gaps watches when each partition's records are processed, and by whom.
type gaps struct {
	mu   sync.Mutex
	last map[int32]seen
	on   bool            // a member leaves; what moved when it came does not count
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
	if was, ok := g.last[p]; ok && was.member != member && g.on {
		g.took = append(g.took, now.Sub(was.at))
	}
	g.last[p] = seen{member, now}
}

func (g *gaps) count(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = on
}

func (g *gaps) moved() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.took)
}

// tunedBeat is the least that the broker is set up to allow.
const tunedBeat = 100 * time.Millisecond

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
		{"cooperative-sticky", func(b *testing.B, g *gaps, group string) { leaveGroup(b, br, topic, group, g, false) }},
		{"cooperative-sticky-tuned", func(b *testing.B, g *gaps, group string) {
			leaveGroup(b, br, topic, group, g, false, kgo.HeartbeatInterval(tunedBeat), kgo.FetchMaxWait(20*time.Millisecond))
		}},
		{"kip-848", func(b *testing.B, g *gaps, group string) {
			leaveGroup(b, br, topic, group, g, true)
		}},
		{"kip-848-tuned", func(b *testing.B, g *gaps, group string) {
			br.groupTimes(group, 10*time.Second, tunedBeat)
			leaveGroup(b, br, topic, group, g, true, kgo.FetchMaxWait(20*time.Millisecond))
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
	leaveAtRandom(b, g, func() { f.stop(leaves) })
	f.stop(stays)
}

func leaveGroup(b *testing.B, br *brokers, topic, group string, g *gaps, byBroker bool, opts ...kgo.Opt) {
	if byBroker {
		opts = append(opts, kgo.ServerSideBalancer())
	}
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
	br.mustBe(group, byBroker)
	leaveAtRandom(b, g, leaves)
	stays()
}

// leaveAtRandom has a member leave at any moment between two heartbeats of the other, which may hear of it only with the next one.
func leaveAtRandom(b *testing.B, g *gaps, leave func()) {
	moment := time.Now().Add(rand.N(5 * time.Second)) // KIP-848's default; 3 s for a classic group
	until(b, "the moment", func() bool { return time.Now().After(moment) })
	before := g.moved()
	g.count(true)
	defer g.count(false)
	leave()
	until(b, "what has moved is consumed", func() bool { return g.moved()-before >= orders.Shards/2 })
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
