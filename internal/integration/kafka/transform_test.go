package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
)

// transformer turns one topic into another by Kafka's transactions, as the documentation of router/kafka describes it: whoever reads only committed
// records sees the output of each input once. The position is a record in a topic of its own, in the transaction of the output.
type transformer struct {
	opts           []kgo.Opt
	id             string // transactional ids begin with it
	out, positions string // topics, with as many partitions as the group has shards
	clients        *sync.WaitGroup
	control        bool // do not ask whether the shard is still held: to see what that is for
}

// producing is one tenure's part.
type producing struct {
	*transformer
	client *kgo.Client
	shard  int32
}

// open is for a node on store.
func (x *transformer) open(store cas.Store) kafka.Open {
	return func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
		p, from, err := x.begin(ctx, t.Token().Shard, func(ctx context.Context) error {
			guard := t.Guard()
			e, err := store.Get(ctx, guard.Key)
			if err == nil && !guard.Holds(e) {
				err = fmt.Errorf("another owner has shard %d", t.Token().Shard)
			}
			return err
		})
		if err != nil {
			return kafka.Partition{}, err
		}
		x.clients.Add(1)
		context.AfterFunc(t.Context(), func() {
			defer x.clients.Done()
			p.client.Close()
		})
		return kafka.Partition{From: from, Process: p.process}, nil
	}
}

// begin makes a producer for one tenure, and finds the position. The order is what it is about.
func (x *transformer) begin(ctx context.Context, shard int, holds func(context.Context) error) (p *producing, from int64, err error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.TransactionalID(x.id + "-" + strconv.Itoa(shard)), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
	}, x.opts...)...)
	if err != nil {
		return nil, -1, err
	}
	defer func() {
		if err != nil {
			cl.Close()
		}
	}()
	p = &producing{x, cl, int32(shard)}
	// First the producer: from here on none that was before it can commit, and what one had left open is aborted.
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return nil, -1, err
	}
	// Then whether the shard is still held. Kafka lets whoever comes last win, a zombie that wakes between its grant and the line above too. It
	// finds out here; and who passes has come before every later owner.
	if !x.control {
		if err := holds(ctx); err != nil {
			return nil, -1, err
		}
	}
	// Last the position, which nobody else can move now.
	from, err = p.position(ctx)
	return p, from, err
}

// process is one transaction. When it fails the tenure ends, and the next one finds out by the position what has become of it.
func (p *producing) process(ctx context.Context, recs []*kgo.Record) error {
	if err := p.produce(ctx, recs); err != nil {
		return errors.Join(err, p.client.EndTransaction(ctx, kgo.TryAbort))
	}
	return p.client.EndTransaction(ctx, kgo.TryCommit)
}

func (p *producing) produce(ctx context.Context, recs []*kgo.Record) error {
	if err := p.client.BeginTransaction(); err != nil {
		return err
	}
	var out []*kgo.Record
	for _, r := range recs {
		out = append(out, &kgo.Record{Topic: p.out, Partition: p.shard, Key: r.Key, Value: fmt.Appendf(nil, "%d: %s", r.Offset, r.Value)})
	}
	out = append(out, &kgo.Record{Topic: p.positions, Partition: p.shard, Key: []byte("next"), Value: strconv.AppendInt(nil, kafka.Next(recs), 10)})
	return p.client.ProduceSync(ctx, out...).FirstErr()
}

// position is what was committed last, or -1.
func (p *producing) position(ctx context.Context) (int64, error) {
	recs, err := readCommitted(ctx, p.opts, p.positions, p.shard)
	if err != nil || len(recs) == 0 {
		return -1, err
	}
	return strconv.ParseInt(string(recs[len(recs)-1].Value), 10, 64)
}

// readCommitted is what a partition has for readers of committed records, up to its present end.
func readCommitted(ctx context.Context, opts []kgo.Opt, topic string, partition int32) ([]*kgo.Record, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), // those that end a transaction: they may be the last
	}, opts...)...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	listed, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	end, ok := listed.Lookup(topic, partition)
	if !ok || end.Err != nil {
		return nil, fmt.Errorf("where %s/%d ends: %w", topic, partition, end.Err)
	}
	var recs []*kgo.Record
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				recs = append(recs, r)
			}
		})
	}
	return recs, nil
}
