package kafka

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrRestore: this tenure has not restored the shard, or an append of it has failed, so that nobody knows what the log holds. Not applied.
// End the tenure: the next one restores.
var ErrRestore error = &refusal{"kafka: changelog: not restored in this tenure, or an append has failed since: end the tenure, the next one restores"}

// ChangelogConfig configures a Changelog. The zero value needs brokers, in Client.
type ChangelogConfig struct {
	// Client is for the brokers' addresses, TLS, SASL, compression and all else of kgo. Partitioner and acks are the Changelog's own; it
	// must not be transactional, and is idempotent.
	Client []kgo.Opt

	// Checkpoints bound how much a Restore replays. Without them it is the whole log.
	Checkpoints Checkpoints

	// Trim deletes from the log what the newest checkpoint covers. Only if every node reads the same Checkpoints, and none loses
	// one: what is deleted nobody can replay.
	Trim bool

	Logger *slog.Logger // Defaults to silence
}

// Changelog keeps a shard's state in partition i of a topic, fenced by log order: see Filter. Make it with OpenChangelog.
// Safe for concurrent use.
type Changelog struct {
	group   shard.Group
	topic   string
	id      topicID
	config  ChangelogConfig
	client  *kgo.Client
	leaders []atomic.Int32 // by partition, as far as known; -1: not
	unpack  kgo.Decompressor

	mu       sync.Mutex // guards sessions
	sessions map[int]*session
}

// session is one tenure's part of the log.
type session struct {
	token shard.Token

	turn   chan struct{} // has a token while nobody appends; what follows is his who took it
	end    int64         // offset after this tenure's last record
	batch  int64         // its number
	next   int64         // input position reached
	failed error         // why nothing can be appended any more
}

// OpenChangelog asks the brokers for the topic. It refuses one that is compacted, where a zombie's late record would compact away the rightful
// one that readers keep, and one whose retention deletes what no checkpoint holds: that is any limit in time or size, since Trim
// deletes what it may. CreateChangelog makes the right one.
func OpenChangelog(ctx context.Context, g shard.Group, topic string, c ChangelogConfig) (*Changelog, error) {
	g = g.WithDefaults()
	var err error
	if bad := g.Validate(); bad != nil {
		err = &opError{"group", bad, cas.NotApplied}
	}
	if topic == "" {
		err = errors.Join(err, refused("OpenChangelog: want a topic"))
	}
	if c.Trim && c.Checkpoints == nil {
		err = errors.Join(err, refused("ChangelogConfig.Trim: there are no Checkpoints that could cover what it deletes"))
	}
	if err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := appending(c.Client)
	if err != nil {
		return nil, err
	}
	facts, err := check(ctx, client, topic, g.Shards)
	if err == nil {
		err = known(ctx, func() error { return lasting(ctx, client, topic, c.Logger) })
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	l := &Changelog{
		group: g, topic: topic, id: facts.id, config: c, client: client,
		leaders: make([]atomic.Int32, g.Shards), unpack: kgo.DefaultDecompressor(), sessions: make(map[int]*session),
	}
	l.note(facts)
	return l, nil
}

// Close ends appends that are under way, with their outcome open. Call it once the node has stopped.
func (l *Changelog) Close() error {
	l.client.Close()
	return nil
}

// appending makes a client that produces to the partition that a record names, in order, once.
func appending(opts []kgo.Opt) (*kgo.Client, error) {
	all := append([]kgo.Opt{kgo.ProducerLinger(0)}, opts...)
	all = append(all, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()))
	client, err := kgo.NewClient(all...)
	if err != nil {
		return nil, refused("ChangelogConfig.Client: %v", err)
	}
	txn, _ := client.OptValue(kgo.TransactionalID).(string)
	plain, _ := client.OptValue(kgo.DisableIdempotentWrite).(bool)
	if txn != "" || plain {
		client.Close()
		return nil, refused("ChangelogConfig.Client: TransactionalID and DisableIdempotentWrite are not for a changelog: " +
			"its fence is the log's order, which an idempotent producer keeps and a transaction hides")
	}
	return client, nil
}

// lasting refuses a topic that forgets.
func lasting(ctx context.Context, cl *kgo.Client, topic string, log *slog.Logger) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType = kmsg.ConfigResourceTypeTopic
	res.ResourceName = topic
	res.ConfigNames = []string{"cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas", "unclean.leader.election.enable"}
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Resources) == 1 {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil || len(resp.Resources) != 1 {
		return &TopicError{topic, "ask for its configuration", err}
	}
	conf := make(map[string]string)
	for _, c := range resp.Resources[0].Configs {
		if c.Value != nil {
			conf[c.Name] = *c.Value
		}
	}
	if conf["unclean.leader.election.enable"] == "true" {
		log.Warn("kafka: unclean leader elections are enabled: the changelog can lose what it has acknowledged", "topic", topic)
	}
	policy, ms, bytes := conf["cleanup.policy"], conf["retention.ms"], conf["retention.bytes"]
	if policy != "delete" || ms != "-1" || bytes != "-1" {
		return &ForgetfulError{Topic: topic, Policy: policy, RetentionMS: ms, RetentionBytes: bytes}
	}
	return nil
}

// ForgetfulError: the topic's configuration would delete records that state is rebuilt from.
type ForgetfulError struct{ Topic, Policy, RetentionMS, RetentionBytes string }

func (e *ForgetfulError) Error() string {
	return "kafka: changelog topic " + e.Topic + " has cleanup.policy=" + e.Policy + " retention.ms=" + e.RetentionMS +
		" retention.bytes=" + e.RetentionBytes + ": want delete, -1 and -1. Compaction would keep a zombie's late record and drop the " +
		"rightful one before it; retention deletes what no checkpoint holds. To bound the log, use Checkpoints with Trim"
}

// Outcome is NotApplied.
func (e *ForgetfulError) Outcome() cas.Outcome { return cas.NotApplied }

// CreateChangelog makes a topic for a changelog of g: as many partitions as shards, nothing compacted, nothing deleted by age or size. No
// error if the topic is there; OpenChangelog says whether it is right. replicas -1 is the brokers' default.
func CreateChangelog(ctx context.Context, cl *kgo.Client, g shard.Group, topic string, replicas int) error {
	if err := g.Validate(); err != nil {
		return &opError{"group", err, cas.NotApplied}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(g.Shards), int16(replicas)
	for _, c := range [][2]string{{"cleanup.policy", "delete"}, {"retention.ms", "-1"}, {"retention.bytes", "-1"}} {
		tc := kmsg.NewCreateTopicsRequestTopicConfig()
		tc.Name, tc.Value = c[0], kmsg.StringPtr(c[1])
		t.Configs = append(t.Configs, tc)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Topics) == 1 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return &TopicError{topic, "create it", err}
	}
	return nil
}

// take is tok's session once nobody else appends in it; give gives it back.
func (l *Changelog) take(ctx context.Context, tok shard.Token) (*session, error) {
	l.mu.Lock()
	s := l.sessions[tok.Shard]
	l.mu.Unlock()
	if s == nil || s.token != tok {
		if s != nil && s.token.GroupID == tok.GroupID && s.token.Epoch > tok.Epoch {
			return nil, &fence.FencedError{Mine: tok.Epoch, Current: s.token.Epoch}
		}
		return nil, ErrRestore
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, &opError{"changelog: wait for the append before", context.Cause(ctx), cas.NotApplied}
	}
	if s.failed != nil {
		err := s.failed
		s.give()
		if ofOwner(err) {
			return nil, err
		}
		return nil, ErrRestore
	}
	return s, nil
}

func (s *session) give() { s.turn <- struct{}{} }

// unrestored refuses a second session in one tenure. It would number its batches from 1 again, and readers leave out numbers that they
// have seen: what it appends would be acknowledged and read by nobody.
func (l *Changelog) unrestored(tok shard.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.successor(tok)
}

// successor reports whether tok may follow the session that there is, with l.mu held.
func (l *Changelog) successor(tok shard.Token) error {
	was := l.sessions[tok.Shard]
	switch {
	case was == nil || was.token.GroupID != tok.GroupID || was.token.Epoch < tok.Epoch:
		return nil
	case was.token.Epoch > tok.Epoch:
		return &fence.FencedError{Mine: tok.Epoch, Current: was.token.Epoch}
	}
	return refused("changelog: restore shard %d: the tenure with token %s has restored already: end it, the next one restores", tok.Shard, tok)
}

// begin makes tok's session the current one.
func (l *Changelog) begin(tok shard.Token, end, next int64) error {
	s := &session{token: tok, turn: make(chan struct{}, 1), end: end, next: next}
	s.give()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.successor(tok); err != nil {
		return err
	}
	l.sessions[tok.Shard] = s
	return nil
}
