package moving

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// grouped is members of a consumer group.
type grouped struct {
	*Records
	log     *log
	topic   string
	group   string
	how     Consumer
	members map[string]*groupMember
}

type groupMember struct {
	leave context.CancelFunc
	gone  chan struct{}
}

// join follows the client's advice for work that is not to be done twice: no rebalance between a poll and the commit of what it
// brought.
func (g *grouped) join(ctx context.Context, name string) error {
	opts, err := g.Broker.Join(ctx, g.group, g.how.kind)
	if err != nil {
		return err
	}
	opts = append(opts, kgo.ConsumeTopics(g.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
	if g.how.fetchWait > 0 {
		opts = append(opts, kgo.FetchMaxWait(g.how.fetchWait))
	}
	client, err := g.Broker.Client(opts...)
	if err != nil {
		return err
	}
	running, leave := context.WithCancel(context.Background())
	m := &groupMember{leave: leave, gone: make(chan struct{})}
	g.members[name] = m
	go func() {
		defer close(m.gone)
		for running.Err() == nil {
			fetches := client.PollFetches(running)
			// Not under running: what was begun is finished.
			if fetches.NumRecords() > 0 && client.CommitUncommittedOffsets(context.Background()) == nil {
				fetches.EachPartition(func(p kgo.FetchTopicPartition) { g.log.consumed(name, p.Records) })
			}
			client.AllowRebalance()
		}
		client.CloseAllowingRebalance() // leaves the group
	}()
	return nil
}

func (g *grouped) leave(name string) error {
	if m := g.members[name]; m != nil {
		delete(g.members, name)
		m.leave()
		<-m.gone
	}
	return nil
}

func (g *grouped) close() {
	_ = g.leave("b")
	_ = g.leave("a")
	g.Broker.Forget(g.group)
}
