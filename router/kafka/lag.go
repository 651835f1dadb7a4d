package kafka

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	commitEvery = time.Second     // to LagGroup
	lookEvery   = 5 * time.Second // at the topic and its ends
)

// watch keeps LagGroup, Lag and Err up to date until ctx ends.
func (c *Consumer) watch(ctx context.Context) {
	commit, look := time.NewTicker(commitEvery), time.NewTicker(lookEvery)
	defer commit.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-commit.C:
			if c.lags != nil {
				c.lags.commit(ctx)
			}
		case <-look.C:
			c.look(ctx)
		}
	}
}

// look asks how the topic is, and where its partitions end.
func (c *Consumer) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	facts, err := lookup(ctx, c.client, c.topic)
	if err != nil {
		c.log.Debug("kafka: the topic could not be asked after", "err", err)
		return
	}
	c.judge(facts)
	owned := c.owned()
	var partitions []int32
	for s := range owned {
		partitions = append(partitions, int32(s))
	}
	if len(partitions) == 0 {
		return
	}
	ends, err := offsets(ctx, c.client, c.topic, timeEnd, partitions...)
	if err != nil {
		c.log.Debug("kafka: the ends of partitions could not be asked for", "err", err)
		return
	}
	for p, end := range ends {
		if f := owned[int(p)].feed.Load(); f != nil {
			f.know(end)
		}
	}
}

// judge compares the topic with what it was at the start.
func (c *Consumer) judge(facts topicFacts) {
	var fault error
	switch {
	case facts.id != c.id:
		fault = &RecreatedError{Topic: c.topic, Was: c.id.String(), Now: facts.id.String()}
	case len(facts.leaders) != c.group.Shards:
		fault = &PartitionsError{Topic: c.topic, Want: c.group.Shards, Got: len(facts.leaders)}
	default:
		c.fault.Store(nil)
		return
	}
	c.fault.Store(&fault)
	c.log.Error("kafka: the topic has changed", "err", fault)
}

// lagGroup commits positions to a consumer group without members, so that tools that know groups can tell the lag.
type lagGroup struct {
	client *kgo.Client
	group  string
	topic  string
	id     topicID
	log    *slog.Logger

	mu    sync.Mutex // guards the fields below
	dirty map[int]int64
	told  string // the error logged last
}

func newLagGroup(client *kgo.Client, group, topic string, id topicID, log *slog.Logger) *lagGroup {
	return &lagGroup{client: client, group: group, topic: topic, id: id, log: log, dirty: make(map[int]int64)}
}

// reached notes a shard's position, to be committed within a second.
func (l *lagGroup) reached(s int, pos int64) {
	if pos < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty[s] = pos
}

// commit commits what was noted since the last time. What fails is left out: the next position says more.
func (l *lagGroup) commit(ctx context.Context) {
	l.mu.Lock()
	dirty := l.dirty
	l.dirty = make(map[int]int64)
	l.mu.Unlock()
	if len(dirty) == 0 {
		return
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = l.group
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = l.topic, l.id
	for s, pos := range dirty {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(s), pos
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	resp, err := req.RequestWith(ctx, l.client)
	if err == nil {
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(rp.ErrorCode))
				if err != nil {
					break
				}
			}
		}
	}
	l.tell(ctx, err)
}

// tell logs an error that is not the one before.
func (l *lagGroup) tell(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	known := l.told == text
	l.told = text
	l.mu.Unlock()
	if err == nil || known || ctx.Err() != nil {
		return
	}
	why := "it is for information only"
	if slices.ContainsFunc([]error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress}, func(e error) bool { return errors.Is(err, e) }) {
		why = "the group has members: give LagGroup a name of its own"
	}
	l.log.Warn("kafka: positions could not be committed to LagGroup: "+why, "lag_group", l.group, "err", err)
}
