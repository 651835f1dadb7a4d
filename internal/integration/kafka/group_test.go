package kafka

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupTimes sets what a group of KIP-848 has as configuration on the broker: its members don't choose it.
func (b *brokers) groupTimes(group string, session, heartbeat time.Duration) {
	b.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, d := range map[string]time.Duration{"consumer.session.timeout.ms": session, "consumer.heartbeat.interval.ms": heartbeat} {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = name, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(strconv.FormatInt(d.Milliseconds(), 10))
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(b.t.Context(), b.client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		b.t.Fatalf("set the times of group %s: %v", group, err)
	}
}

// mustBe fails unless the group, which has members, is of KIP-848, or is not: a client that asks for KIP-848 and can't have it makes
// a classic group instead, and says nothing.
func (b *brokers) mustBe(group string, byBroker bool) {
	b.t.Helper()
	groups, err := kadm.NewClient(b.client()).ListGroups(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	want := "classic"
	if byBroker {
		want = "consumer"
	}
	if got := groups[group].GroupType; got != want {
		b.t.Fatalf("group %s is of the type %q, want %q", group, got, want)
	}
}
