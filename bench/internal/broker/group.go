package broker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kind is a consumer group as it is set up. The zero value is a classic one at the client's defaults.
type Kind struct {
	ByBroker bool          // KIP-848: the broker shares the partitions out, not the members
	Session  time.Duration // 0: by default, which is 45 s
	Beat     time.Duration // between heartbeats; 0: by default, which is 3 s, and 5 s with ByBroker
}

// Join prepares the group, and returns what each member's client is made with, besides Options.
func (b *Broker) Join(ctx context.Context, group string, k Kind) ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.ConsumerGroup(group), kgo.Balancers(kgo.CooperativeStickyBalancer())}
	if k.ByBroker {
		return append(opts, kgo.ServerSideBalancer()), b.configure(ctx, group, k)
	}
	if k.Session > 0 {
		opts = append(opts, kgo.SessionTimeout(k.Session))
	}
	if k.Beat > 0 {
		opts = append(opts, kgo.HeartbeatInterval(k.Beat))
	}
	return opts, nil
}

// configure sets a group's own times on the broker: its members don't choose them.
func (b *Broker) configure(ctx context.Context, group string, k Kind) error {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, d := range map[string]time.Duration{"consumer.session.timeout.ms": k.Session, "consumer.heartbeat.interval.ms": k.Beat} {
		if d > 0 {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Value = name, kmsg.StringPtr(strconv.FormatInt(d.Milliseconds(), 10))
			resource.Configs = append(resource.Configs, c)
		}
	}
	if len(resource.Configs) == 0 {
		return nil
	}
	client, err := b.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	reply, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("broker: configure group %s: %w", group, err)
	}
	for _, r := range reply.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			said := ""
			if r.ErrorMessage != nil {
				said = *r.ErrorMessage
			}
			return fmt.Errorf("broker: configure group %s: %w: %s", group, err, said)
		}
	}
	return nil
}

// Check says whether a group that has members is of the kind that was asked for.
func (b *Broker) Check(ctx context.Context, group string, k Kind) error {
	admin, err := b.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("broker: list groups: %w", err)
	}
	want := "classic"
	if k.ByBroker {
		want = "consumer"
	}
	if got := groups[group].GroupType; got != want {
		return fmt.Errorf("broker: group %s: is of the type %q, want %q: this broker does not do what the row is about", group, got, want)
	}
	return nil
}

// Forget deletes a group that has no members, with its offsets.
func (b *Broker) Forget(group string) {
	admin, err := b.admin()
	if err != nil {
		return
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _ = admin.DeleteGroups(ctx, group)
}
