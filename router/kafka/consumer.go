package kafka

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Partition is what Open returns: where to read on, and what to do with a batch.
type Partition struct {
	// From is the offset of the next record, or -1 if there is no position yet: then ConsumerConfig.Start says where.
	From int64

	// Process applies recs and the position Next(recs) together, all or nothing, in the order of offsets; there is at least one. It is
	// never called twice at the same time in one tenure, and runs under a context that outlives a hand-off's beginning: the hand-off waits
	// for it. The records are its own. Of its errors see the package's documentation.
	Process func(ctx context.Context, recs []*kgo.Record) error

	// Advance stores next as the position without any effect: where a shard begins, past a record that was put away, and for Seek. Without
	// it the next batch's position does; until then a new owner begins, or puts the record away, once more. Optional.
	Advance func(ctx context.Context, next int64) error
}

// Open seals and loads what a shard has, and returns how to go on. It is called once in each tenure.
type Open func(ctx context.Context, t *owner.Tenure) (Partition, error)

// Consumer consumes a topic whose partition i belongs to the owner of shard i. Make it with NewConsumer and give its Serve to
// owner.New. Safe for concurrent use.
type Consumer struct {
	group  shard.Group
	topic  string
	id     topicID
	open   Open
	config ConsumerConfig
	log    *slog.Logger
	client *kgo.Client
	stream *stream
	lags   *lagGroup // nil: none

	lastGood atomic.Int64 // when a batch last succeeded, in Unix nanoseconds
	fault    atomic.Pointer[error]

	mu      sync.Mutex // guards the fields below
	workers map[int]*worker
	trouble map[int]*trouble // of shards that are not owned here now, too

	stop context.CancelFunc
	loop sync.WaitGroup
}

// NewConsumer asks the brokers for the topic, and fails if they can't be reached, if it has not exactly as many partitions as g has
// shards (*PartitionsError), or if it or the dead-letter topic is missing or refused (*TopicError). Close it after the node has
// stopped.
func NewConsumer(ctx context.Context, g shard.Group, topic string, open Open, c ConsumerConfig) (*Consumer, error) {
	g = g.WithDefaults()
	c, err := c.withDefaults()
	if bad := g.Validate(); bad != nil {
		err = errors.Join(&opError{"group", bad, 0}, err)
	}
	if topic == "" || open == nil {
		err = errors.Join(err, refused("NewConsumer: want a topic and an Open"))
	}
	if err != nil {
		return nil, err
	}
	client, err := consuming(c.Client)
	if err != nil {
		return nil, err
	}
	facts, err := check(ctx, client, topic, g.Shards)
	if err == nil && c.DeadLetter != "" {
		err = known(ctx, func() error {
			_, err := lookup(ctx, client, c.DeadLetter)
			if e, ok := err.(*TopicError); ok {
				e.Doing = findDead
			}
			return err
		})
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return start(g, topic, facts.id, open, c, client), nil
}

func start(g shard.Group, topic string, id topicID, open Open, c ConsumerConfig, client *kgo.Client) *Consumer {
	ctx, stop := context.WithCancel(context.Background())
	cons := &Consumer{
		group: g, topic: topic, id: id, open: open, config: c, client: client,
		log:     c.Logger.With("group", g.Name, "topic", topic),
		stream:  &stream{client: client, topic: topic},
		workers: make(map[int]*worker),
		trouble: make(map[int]*trouble),
		stop:    stop,
	}
	if c.LagGroup != "" {
		cons.lags = newLagGroup(client, c.LagGroup, topic, id, cons.log)
	}
	cons.loop.Go(func() { cons.stream.run(ctx) })
	cons.loop.Go(func() { cons.watch(ctx) })
	return cons
}

// consuming makes a client whose partitions are added by hand.
func consuming(opts []kgo.Opt) (*kgo.Client, error) {
	all := []kgo.Opt{kgo.FetchMaxWait(fetchWait), kgo.FetchMaxBytes(16 << 20), kgo.ProducerLinger(0)}
	all = append(all, opts...)
	// Out of range is an error to be told, never a reason to go on elsewhere.
	all = append(all, kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	client, err := kgo.NewClient(all...)
	if err != nil {
		return nil, refused("ConsumerConfig.Client: %v", err)
	}
	group, _ := client.OptValue(kgo.ConsumerGroup).(string)
	topics, _ := client.OptValue(kgo.ConsumeTopics).([]string)
	partitions, _ := client.OptValue(kgo.ConsumePartitions).(map[string]map[int32]kgo.Offset)
	if group != "" || len(topics) > 0 || len(partitions) > 0 {
		client.Close()
		return nil, refused("ConsumerConfig.Client: ConsumerGroup, ConsumeTopics and ConsumePartitions are not for you to set: " +
			"the group's owners decide who consumes what")
	}
	return client, nil
}

// Serve is the owner.Handler: it opens the shard, admits requests, and consumes its partition until the tenure ends.
func (c *Consumer) Serve(ctx context.Context, t *owner.Tenure) error {
	return c.serve(ctx, t, c.open)
}

// Handler is Serve with another Open: for owner.Config.Prepare, a closure over state that was warmed up.
func (c *Consumer) Handler(open Open) owner.Handler {
	return func(ctx context.Context, t *owner.Tenure) error { return c.serve(ctx, t, open) }
}

func (c *Consumer) serve(ctx context.Context, t *owner.Tenure, open Open) error {
	w, err := c.opened(ctx, t, open)
	if err != nil {
		return err
	}
	t.Ready()
	return c.work(ctx, w)
}

// opened has what Open returns for the tenure's shard.
func (c *Consumer) opened(ctx context.Context, t *owner.Tenure, open Open) (*worker, error) {
	s := t.Token().Shard
	if t.Token().Group != c.group.Name || s >= c.group.Shards {
		return nil, refused("the consumer is of group %q with %d shards, the tenure is %s: give both one declaration", c.group.Name, c.group.Shards, t.Token())
	}
	stream := c.streamName()
	p, err := open(withStream(ctx, stream), t)
	if err != nil {
		return nil, err
	}
	if p.Process == nil || p.From < -1 {
		return nil, refused("shard %d: Open returned From %d and a Process that is nil: %t; want a Process, and From from -1 up", s, p.From, p.Process == nil)
	}
	return &worker{
		consumer: c, tenure: t, shard: s, part: p, pos: p.From, epoch: -1,
		ctx:  withStream(t.Context(), stream),
		seek: make(chan seek),
		log:  c.log.With("shard", s, "epoch", t.Token().Epoch),
	}, nil
}

// work consumes an opened shard until its tenure ends.
func (c *Consumer) work(ctx context.Context, w *worker) error {
	w.trouble = c.troubleOf(w.shard)
	if !c.enter(w) {
		return ErrClosed
	}
	defer c.leave(w)
	w.moveTo(w.pos, -1)
	return w.run(ctx)
}

// troubleOf is what is remembered of a shard. Its tenures here follow one another, except that one that was forced
// may still run: then the new one knows nothing.
func (c *Consumer) troubleOf(s int) *trouble {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble[s] == nil || c.workers[s] != nil {
		c.trouble[s] = new(trouble)
	}
	return c.trouble[s]
}

func (c *Consumer) enter(w *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers == nil {
		return false
	}
	c.workers[w.shard] = w
	return true
}

func (c *Consumer) leave(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers[w.shard] == w {
		delete(c.workers, w.shard)
	}
}

// owned is a snapshot of the shards that are consumed here.
func (c *Consumer) owned() map[int]*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.workers)
}

// Lag is how many records wait in the log and here, by shard owned here, as of the last fetch or five seconds ago. A shard whose tenure is between tries
// is not in it: its lag is not 0, but unknown, and a sum leaves it out.
func (c *Consumer) Lag() map[int]int64 {
	lag := make(map[int]int64)
	for s, w := range c.owned() {
		lag[s] = w.lag()
	}
	return lag
}

// Stopped says of the shards owned here that stand still, why. They are tried again by themselves. One whose tenure was ended by Process's
// error is not among them: nobody owns it until its next tenure, here or elsewhere.
func (c *Consumer) Stopped() map[int]error {
	stopped := make(map[int]error)
	for s, w := range c.owned() {
		if err := w.stopped.Load(); err != nil {
			stopped[s] = *err
		}
	}
	return stopped
}

// Err is what is wrong with the topic as a whole: partitions were added (*PartitionsError), it was created anew (*RecreatedError).
// It is looked at every five seconds. What can be consumed rightly is consumed nevertheless.
func (c *Consumer) Err() error {
	if err := c.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Seek leaves out what the owner of shard s, which must be here, has not consumed yet before offset to: past a record that stops it, or
// past what the log has lost. It stores to by Partition.Advance, under the fence, and consumes from there. If it fails all is as before,
// except that an uncertain error leaves open whether it was stored. To where the shard stands already, Advance is not needed.
//
// It goes forward only, and to the log's end at most, as positions under a fence do: what lies before the position has had its effects. To apply it
// once more, give the stream another name, and so positions of its own.
//
// A shard whose log has lost its end (*OffsetError with End below Position) stays where it is even once the log has grown past it. Seek to
// Position, or further, says that what is new before that is to be left out.
func (c *Consumer) Seek(ctx context.Context, s int, to int64) error {
	w := c.owned()[s]
	if w == nil {
		return refused("seek: shard %d is not owned here: ask its owner", s)
	}
	req := seek{ctx: ctx, to: to, reply: make(chan error, 1)}
	select {
	case w.seek <- req:
	case <-w.tenure.Context().Done():
		return refused("seek: shard %d: the tenure has ended", s)
	case <-ctx.Done():
		return &opError{"seek", context.Cause(ctx), 0}
	}
	select {
	case err := <-req.reply:
		return err
	case <-ctx.Done(): // it may have been stored
		return context.Cause(ctx)
	case <-w.tenure.Context().Done():
	}
	select {
	case err := <-req.reply: // at the same time
		return err
	default: // Advance has panicked, or is not done yet
		return &opError{"seek", w.tenure.Err(), cas.Uncertain}
	}
}

// Close ends consumption. Call it once the node has stopped. Positions that LagGroup has not been told are committed, within ten seconds.
func (c *Consumer) Close() error {
	c.mu.Lock()
	c.workers = nil
	c.mu.Unlock()
	c.stop()
	c.loop.Wait()
	if c.lags != nil {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		c.lags.commit(ctx)
	}
	c.client.Close()
	return nil
}

func (c *Consumer) good() { c.lastGood.Store(time.Now().UnixNano()) }

func (c *Consumer) lastSuccess() time.Time { return time.Unix(0, c.lastGood.Load()) }

type streamKey struct{}

func withStream(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, streamKey{}, name)
}

// Stream is a name for the position of what is consumed under ctx, which Open or Process was given: the topic's name and id, so
// that a topic that is deleted and made anew begins anew, instead of where the old one stood. It is "" under another context.
func Stream(ctx context.Context) string {
	name, _ := ctx.Value(streamKey{}).(string)
	return name
}

func (c *Consumer) streamName() string {
	if c.id == (topicID{}) {
		return c.topic
	}
	return c.topic + "@" + c.id.String()
}
