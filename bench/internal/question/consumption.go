package question

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/bench/internal/broker"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// Consumption is how many records are read, and how often. The zero value reads none.
type Consumption struct {
	Broker  *broker.Broker
	Records int
	Rounds  int
	Run     string
}

// Planned is about how long it takes.
func (c Consumption) Planned() time.Duration {
	if c.Broker == nil {
		return 0
	}
	return 500*time.Millisecond + time.Duration(c.Rounds)*(500*time.Millisecond+2*time.Duration(c.Records)*4*time.Microsecond)
}

// consumeParts is how many partitions the records are in.
const consumeParts = 8

// rows read the same records through Tenure's consumer and by a bare client whose loop calls the same handler.
func (c Consumption) rows(ctx context.Context) ([]report.Row, error) {
	if c.Broker == nil || c.Records == 0 {
		return nil, nil
	}
	topic := "bench-cost-" + c.Run
	drop, err := c.Broker.Topic(ctx, topic, consumeParts)
	if err != nil {
		return nil, err
	}
	defer drop()
	if err := c.fill(ctx, topic); err != nil {
		return nil, err
	}
	ways := []struct {
		name string
		ours bool
		read func(context.Context, string, *reader) error
	}{
		{"a Kafka record of 1 KiB, bare client", false, c.bare},
		{"a Kafka record of 1 KiB, router/kafka", true, c.owned},
	}
	took := make([][]float64, len(ways))
	for round := range c.Rounds {
		for turn := range ways {
			i := (turn + round) % len(ways)
			r := newReader(c.Records)
			if err := ways[i].read(ctx, topic, r); err != nil {
				return nil, err
			}
			took[i] = append(took[i], float64(r.last.Load()-r.first.Load())/float64(c.Records))
		}
	}
	var rows []report.Row
	for i, way := range ways {
		row := report.Row{Name: way.name, Ours: way.ours, Note: fmt.Sprintf("%d records, median of %d; %s", c.Records, c.Rounds, c.Broker.Name())}
		spread(&row, took[i])
		rows = append(rows, row)
	}
	return rows, nil
}

func (c Consumption) fill(ctx context.Context, topic string) error {
	producer, err := c.Broker.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer producer.Close()
	var failed atomic.Pointer[error]
	for i := range c.Records {
		value := make([]byte, 1<<10)
		copy(value, fmt.Sprint(i))
		producer.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i % consumeParts), Key: []byte("k"), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	err = producer.Flush(ctx)
	if e := failed.Load(); e != nil {
		err = errors.Join(err, *e)
	}
	if err != nil {
		return fmt.Errorf("question: produce: %w", err)
	}
	return nil
}

// reader is the handler of both: it looks at every byte.
type reader struct {
	want        int64
	count       atomic.Int64
	sum         atomic.Uint64
	first, last atomic.Int64 // in Unix nanoseconds
	all         chan struct{}
}

func newReader(want int) *reader { return &reader{want: int64(want), all: make(chan struct{})} }

func (r *reader) do(recs []*kgo.Record) {
	r.first.CompareAndSwap(0, time.Now().UnixNano())
	var sum uint64
	for _, rec := range recs {
		sum += xxhash.Sum64(rec.Value)
	}
	r.sum.Add(sum)
	if r.count.Add(int64(len(recs))) == r.want {
		r.last.Store(time.Now().UnixNano())
		close(r.all)
	}
}

func (c Consumption) bare(ctx context.Context, topic string, r *reader) error {
	at := map[int32]kgo.Offset{}
	for p := range int32(consumeParts) {
		at[p] = kgo.NewOffset().AtStart()
	}
	client, err := c.Broker.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}))
	if err != nil {
		return err
	}
	defer client.Close()
	for r.last.Load() == 0 && ctx.Err() == nil {
		client.PollFetches(ctx).EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				r.do(p.Records)
			}
		})
	}
	return ctx.Err()
}

func (c Consumption) owned(ctx context.Context, topic string, r *reader) error {
	store := memkv.New()
	defer store.Close()
	group := shard.Group{Name: "cost", Shards: consumeParts}
	consumer, err := kafka.NewConsumer(ctx, group, topic, func(context.Context, *owner.Tenure) (kafka.Partition, error) {
		return kafka.Partition{Process: func(_ context.Context, recs []*kgo.Record) error {
			r.do(recs)
			return nil
		}}, nil
	}, kafka.ConsumerConfig{Client: c.Broker.Options(), AnyKey: true})
	if err != nil {
		return err
	}
	node, err := owner.New(store, group, consumer.Serve, owner.Config{Settle: time.Millisecond})
	if err != nil {
		return errors.Join(err, consumer.Close())
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(running) }()
	select {
	case <-r.all:
		stop()
		err = <-ended
	case err = <-ended:
		stop()
	}
	return errors.Join(err, consumer.Close(), ctx.Err())
}
