package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A dead-letter topic needs no particular number of partitions, unlike the one that is consumed.
func TestTopicError_SaysWhichTopicIsMissing(t *testing.T) {
	const dead = `kafka: dead-letter topic "nodead" does not exist: create it, with any number of partitions`
	for _, doing := range []string{findDead, putAway} {
		err := &TopicError{"nodead", doing, kerr.UnknownTopicOrPartition}
		if err.Error() != dead || !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Errorf("%s: got %v, want %s", doing, err, dead)
		}
		if text := (&TopicError{"nodead", doing, kerr.TopicAuthorizationFailed}).Error(); !strings.Contains(text, doing) || !strings.Contains(text, "Write") {
			t.Errorf("%s, refused: got %s", doing, text)
		}
	}
	if text := (&TopicError{"orders", "ask the brokers for it", kerr.UnknownTopicOrPartition}).Error(); !strings.Contains(text, "as many partitions as the group has shards") {
		t.Errorf("the topic that is consumed: got %s", text)
	}
}

// The header says what is wrong with the record, and not once more where it is.
func TestReason(t *testing.T) {
	cause := errors.New("not a number")
	r := &kgo.Record{Topic: "amounts", Partition: 4, Offset: 75}
	for _, tc := range []struct {
		why  error
		want string
	}{
		{cause, "not a number"},
		{NotApplied(cause), "kafka: not applied: not a number"},
		{Bad(r, cause), "not a number"},
		{fmt.Errorf("fence: transaction function: %w", Bad(r, cause)), "not a number"},
		{&BadRecordError{Record: r}, "kafka: bad record at amounts/4@75: <nil>"},
		{errors.New(strings.Repeat("x", maxDeadError+1)), strings.Repeat("x", maxDeadError)},
	} {
		if got := reason(tc.why); got != tc.want {
			t.Errorf("%v: got %q, want %q", tc.why, got, tc.want)
		}
	}
}

// Who forgets Client is told where that address comes from.
func TestReach_SaysThatItTriedTheDefault(t *testing.T) {
	down := kgo.Dialer(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("down") })
	for _, tc := range []struct {
		opts  []kgo.Opt
		wants bool
	}{
		{[]kgo.Opt{down}, true},
		{[]kgo.Opt{down, kgo.SeedBrokers("127.0.0.1:9092")}, false},
		{[]kgo.Opt{down, kgo.SeedBrokers("kafka")}, false},
	} {
		cl, err := consuming(tc.opts)
		if err != nil {
			t.Fatal(err)
		}
		err = reach(t.Context(), cl)
		cl.Close()
		if err == nil || cas.OutcomeOf(err) != cas.NotApplied || strings.Contains(err.Error(), "no kgo.SeedBrokers") != tc.wants {
			t.Errorf("got %v, want it to speak of SeedBrokers: %t", err, tc.wants)
		}
	}
}
