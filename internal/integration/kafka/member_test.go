package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// memberVariable holds the orders of a process that consumes. It is the tests' own binary.
const memberVariable = "TENURE_KAFKA_MEMBER"

// orders of a consuming process.
type memberOrders struct {
	Kind, ID, Group, Topic  string
	Brokers, Etcd, Database string
	Timeout                 time.Duration // the lease's TTL, or the session's timeout
	Tuned                   bool          // a session timeout, a heartbeat and a FetchMaxWait other than the defaults
}

const (
	byTenure      = "tenure"
	byCooperative = "cooperative-sticky"
	byKIP848      = "kip-848"
)

// member is the whole of a consuming process: it ends when it is killed, or its parent is gone.
func member(told string) error {
	var o memberOrders
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		return err
	}
	client, err := rpc.Dial("tcp", o.Database)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin) // which the parent holds open
	}()
	d := &database{client: client, member: o.ID}
	if o.Kind == byTenure {
		return o.own(ctx, d)
	}
	return o.consume(ctx, d)
}

func (o memberOrders) own(ctx context.Context, d *database) error {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{o.Etcd}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer etcd.Close()
	g := shard.Group{Name: o.Group, Shards: orders.Shards}
	c, err := kafka.NewConsumer(ctx, g, o.Topic, func(_ context.Context, t *owner.Tenure) (kafka.Partition, error) {
		from, err := d.seal(t.Token())
		return kafka.Partition{From: from, Process: func(_ context.Context, recs []*kgo.Record) error {
			return d.apply(Write{Token: t.Token(), Partition: recs[0].Partition, First: recs[0].Offset, Next: kafka.Next(recs)})
		}}, err
	}, kafka.ConsumerConfig{Client: []kgo.Opt{kgo.SeedBrokers(strings.Split(o.Brokers, ",")...)}, AnyKey: true, Start: kafka.Start{Latest: true}})
	if err != nil {
		return err
	}
	defer c.Close()
	n, err := owner.New(etcdkv.New(etcd), g, c.Serve, owner.Config{ID: o.ID, TTL: o.Timeout})
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// consume is what many a consumer group does: write the effects, then commit the offsets.
func (o memberOrders) consume(ctx context.Context, d *database) error {
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(o.Brokers, ",")...), kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.DisableAutoCommit(),
	}
	if o.Kind == byKIP848 {
		opts = append(opts, kgo.ServerSideBalancer()) // its timeouts are the group's configuration
	}
	if o.Tuned {
		opts = append(opts, kgo.SessionTimeout(o.Timeout), kgo.HeartbeatInterval(o.Timeout/10), kgo.FetchMaxWait(20*time.Millisecond))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if recs := p.Records; len(recs) > 0 {
				err = d.apply(Write{Partition: p.Partition, First: recs[0].Offset, Next: kafka.Next(recs)})
			}
		})
		if err != nil {
			return err
		}
		if fetches.NumRecords() > 0 {
			_ = cl.CommitUncommittedOffsets(ctx)
		}
	}
	return nil
}

// process is a member that runs.
type process struct {
	id  string
	cmd *exec.Cmd
	in  io.Closer // while it is open the process lives
	log *strings.Builder
}

func (o memberOrders) start(b *testing.B, id string) *process {
	b.Helper()
	o.ID = id
	told, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := &process{id: id, cmd: exec.Command(self), log: new(strings.Builder)}
	p.cmd.Env = append(os.Environ(), memberVariable+"="+string(told))
	p.cmd.Stderr = p.log
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// kill ends it at once (SIGKILL), and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// run is main in a process that was started as a member.
func runMember(told string) {
	if err := member(told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
