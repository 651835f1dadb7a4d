package moving

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/bench/internal/broker"
)

// Records is what the contenders that consume work on: a topic with a partition for each part, and a producer that appends to each
// of them every Pause.
type Records struct {
	Broker *broker.Broker
	Etcd   []string // for Tenure, which keeps its positions there
	Run    string
}

// Consumer is a contender that consumes.
type Consumer struct {
	Name, Note string
	Ours       bool
	Slow       bool // heartbeats by default: some seconds for each move
	kind       broker.Kind
	fetchWait  time.Duration // 0: the client's default, 5 s
}

// beat is what heartbeats are tuned to, where the broker allows it.
const beat = 100 * time.Millisecond

// Consumers are those that b can do.
func Consumers(b *broker.Broker) []Consumer {
	quick := max(beat, b.Least.NewBeat)
	all := []Consumer{
		{Name: "cooperative-sticky", Slow: true, kind: broker.Kind{Session: 45 * time.Second, Beat: 3 * time.Second}, Note: "heartbeats every 3 s, the default"},
		{Name: "cooperative-sticky, tuned", kind: broker.Kind{Beat: beat}, fetchWait: 20 * time.Millisecond, Note: fmt.Sprintf("heartbeats every %s, fetches that wait 20 ms at most", beat)},
		{Name: "KIP-848", Slow: true, kind: broker.Kind{ByBroker: true}, Note: "heartbeats every 5 s, the default"},
		{
			Name: "KIP-848, tuned", Slow: quick >= time.Second, kind: broker.Kind{ByBroker: true, Beat: quick}, fetchWait: 20 * time.Millisecond,
			Note: fmt.Sprintf("heartbeats every %s, which is the least that the broker allows or %s, and fetches that wait 20 ms at most", quick, beat),
		},
		{Name: "Tenure, router/kafka", Ours: true, Note: "the position in etcd, with each batch, guarded by the claim; synced to disk there"},
	}
	if b.Fake { // whose heartbeats are not by default
		all = slices.DeleteFunc(all, func(c Consumer) bool { return c.Slow })
	}
	return all
}

// between is the time from one heartbeat to the next.
func (c Consumer) between() time.Duration {
	if c.kind.Beat == 0 && c.kind.ByBroker {
		return 5 * time.Second
	}
	return c.kind.Beat
}

// Planned is about how long a trial takes.
func (c Consumer) Planned() time.Duration {
	if c.Slow {
		return 20 * time.Second
	}
	return 800 * time.Millisecond
}

// Try runs one trial of c. name is one that no other trial uses.
func (q *Records) Try(ctx context.Context, c Consumer, name string) (r Result, err error) {
	topic := "bench-moving-" + q.Run + "-" + name
	drop, err := q.Broker.Topic(ctx, topic, Parts)
	if err != nil {
		return r, err
	}
	defer drop()
	l := &log{}
	var members crew
	check := func() error { return nil }
	if c.Ours {
		t, err := openConsumed(q, l, topic)
		if err != nil {
			return r, err
		}
		defer t.close()
		members = t
	} else {
		g := &grouped{Records: q, log: l, topic: topic, group: topic, how: c, members: map[string]*groupMember{}}
		defer g.close()
		members = g
		check = func() error {
			// At any moment between two heartbeats: a member hears of another's leaving from its next.
			time.Sleep(rand.N(max(beat, c.between())))
			return q.Broker.Check(ctx, topic, c.kind)
		}
	}
	stop, err := q.produce(ctx, topic)
	if err != nil {
		return r, err
	}
	err = trial(ctx, members, &l.gaps, check)
	ends := stop()
	if err == nil {
		err = until(ctx, "all is consumed", func() bool { return l.upTo(ends) })
	}
	return l.sum(ends), err
}

// produce appends to each partition, until stop, which says where they end then.
func (q *Records) produce(ctx context.Context, topic string) (stop func() [Parts]int64, err error) {
	producer, err := q.Broker.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var ends [Parts]int64
	for part := range Parts {
		wg.Go(func() {
			tick := time.NewTicker(Pause)
			defer tick.Stop()
			for ctx.Err() == nil {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				sent := &kgo.Record{Topic: topic, Partition: int32(part), Key: []byte("k"), Value: make([]byte, 100)}
				if producer.ProduceSync(context.Background(), sent).FirstErr() == nil {
					ends[part] = sent.Offset + 1
				}
			}
		})
	}
	return func() [Parts]int64 {
		cancel()
		wg.Wait()
		producer.Close()
		return ends
	}, nil
}

// log is what was consumed. Safe for concurrent use.
type log struct {
	gaps gaps

	mu    sync.Mutex // guards the field below
	times [Parts]map[int64]int
}

// consumed is told of a batch of one partition, when its effect and position are stored.
func (l *log) consumed(member string, recs []*kgo.Record) {
	if len(recs) == 0 {
		return
	}
	part := int(recs[0].Partition)
	l.gaps.saw(part, member)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times[part] == nil {
		l.times[part] = map[int64]int{}
	}
	for _, r := range recs {
		l.times[part][r.Offset]++
	}
}

func (l *log) upTo(ends [Parts]int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for part, end := range ends {
		if end > 0 && l.times[part][end-1] == 0 {
			return false
		}
	}
	return true
}

// sum counts from the first record of each partition that was consumed to its end.
func (l *log) sum(ends [Parts]int64) (r Result) {
	r.Left, r.Joined = l.gaps.of(leaving), l.gaps.of(joining)
	l.mu.Lock()
	defer l.mu.Unlock()
	for part, times := range l.times {
		first, end := int64(0), ends[part]
		for offset := range times {
			first = offset // any
			break
		}
		for offset, n := range times {
			r.Work += n
			r.Doubled += n - 1
			first, end = min(first, offset), max(end, offset+1)
		}
		r.Lost += int(end-first) - len(times)
	}
	return r
}
