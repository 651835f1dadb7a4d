package broker

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A group is of the kind that was asked for, and Check can tell: a client that can't have the one silently takes the other.
func TestCheck(t *testing.T) {
	b, stop, err := Fake()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	drop, err := b.Topic(ctx, "orders", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(drop)
	producer, err := b.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("1")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]Kind{"classic": {}, "new": {ByBroker: true, Session: 3 * time.Second, Beat: 300 * time.Millisecond}} {
		opts, err := b.Join(ctx, name, kind)
		if err != nil {
			t.Fatal(err)
		}
		member, err := b.Client(append(opts, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(member.Close)
		if got := member.PollFetches(ctx).NumRecords(); got != 1 {
			t.Fatalf("%s: got %d records, want 1", name, got)
		}
		if err := b.Check(ctx, name, kind); err != nil {
			t.Error(err)
		}
		if err := b.Check(ctx, name, Kind{ByBroker: !kind.ByBroker}); err == nil {
			t.Errorf("%s: Check takes it for the other kind", name)
		}
	}
}
