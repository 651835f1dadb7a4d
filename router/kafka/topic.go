package kafka

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicID prints as Kafka's own tools print it.
type topicID [16]byte

func (id topicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// topicFacts is what the brokers say of a topic.
type topicFacts struct {
	id      topicID // zero before Kafka 2.8
	leaders []int32 // by partition; -1: none
}

// reach asks the seed brokers, one after another, until one answers. kgo itself tries for long, and then says only that time is up, and not
// that the password is wrong.
func reach(ctx context.Context, cl *kgo.Client) error {
	var errs []error
	for _, b := range cl.SeedBrokers() {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		_, err := req.RequestWith(ctx, b)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	return &opError{"reach a broker", fmt.Errorf("%w%s%s", err, advice(err), ofDefault(cl)), cas.NotApplied}
}

// ofDefault is a remark if what was tried is what kgo tries by default. That it was not given can't be told for certain.
func ofDefault(cl *kgo.Client) string {
	if seeds, _ := cl.OptValue(kgo.SeedBrokers).([]string); len(seeds) == 1 && seeds[0] == "127.0.0.1" {
		return " (127.0.0.1 is kgo's default, which is tried if Client has no kgo.SeedBrokers)"
	}
	return ""
}

// lookup asks for a topic, past any cache. It never creates one.
func lookup(ctx context.Context, cl *kgo.Client, topic string) (topicFacts, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return topicFacts{}, &TopicError{topic, "ask the brokers for it", err}
	}
	if len(resp.Topics) != 1 {
		return topicFacts{}, &TopicError{topic, "ask the brokers for it", kerr.UnknownTopicOrPartition}
	}
	rt := resp.Topics[0]
	if err := kerr.ErrorForCode(rt.ErrorCode); err != nil {
		return topicFacts{}, &TopicError{topic, "ask the brokers for it", err}
	}
	facts := topicFacts{id: rt.TopicID, leaders: make([]int32, len(rt.Partitions))}
	for _, p := range rt.Partitions {
		if int(p.Partition) >= len(facts.leaders) {
			return topicFacts{}, &TopicError{topic, "ask the brokers for it", kerr.UnknownTopicOrPartition}
		}
		facts.leaders[p.Partition] = p.Leader
		if kerr.ErrorForCode(p.ErrorCode) != nil {
			facts.leaders[p.Partition] = -1
		}
	}
	return facts, nil
}

// check looks a topic up, first of all, and demands a number of partitions.
func check(ctx context.Context, cl *kgo.Client, topic string, want int) (topicFacts, error) {
	if err := reach(ctx, cl); err != nil {
		return topicFacts{}, err
	}
	var facts topicFacts
	err := known(ctx, func() (err error) {
		facts, err = lookup(ctx, cl, topic)
		return err
	})
	if err == nil && len(facts.leaders) != want {
		err = &PartitionsError{Topic: topic, Want: want, Got: len(facts.leaders)}
	}
	return facts, err
}

// knownWithin is how long after a topic was made some broker may not know it yet.
const knownWithin = 2 * time.Second

// known asks again for a while if ask says that there is no such topic.
func known(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	for {
		err := ask()
		if !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return err
		}
		timer := time.NewTimer(refetchWait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// Times with a meaning of their own in ListOffsets.
const (
	timeEnd   = -1
	timeFirst = -2
)

// offsets asks for an offset of each partition: the first record at that time (in milliseconds) or later, timeFirst or timeEnd.
// A time after the last record gives -1. While leaders change it tries again, until ctx ends.
func offsets(ctx context.Context, cl *kgo.Client, topic string, at int64, partitions ...int32) (map[int32]int64, error) {
	wait := refetchWait
	for {
		found, err := listOffsets(ctx, cl, topic, at, partitions)
		if err == nil {
			return found, nil
		}
		if k, ok := errors.AsType[*kerr.Error](err); !ok || !k.Retriable {
			return nil, &TopicError{topic, "list offsets", err}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait = min(2*wait, time.Second)
		case <-ctx.Done():
			timer.Stop()
			return nil, &TopicError{topic, "list offsets", err}
		}
	}
}

func listOffsets(ctx context.Context, cl *kgo.Client, topic string, at int64, partitions []int32) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition = p
		rp.Timestamp = at
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	found := make(map[int32]int64, len(partitions))
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
				return nil, err
			}
			found[rp.Partition] = rp.Offset
		}
	}
	for _, p := range partitions {
		if _, ok := found[p]; !ok {
			return nil, kerr.UnknownTopicOrPartition
		}
	}
	return found, nil
}

// resolve is the offset at which a partition begins that has no position.
func (s Start) resolve(ctx context.Context, cl *kgo.Client, topic string, partition int32) (int64, error) {
	at := int64(timeFirst)
	switch {
	case s.Latest:
		at = timeEnd
	case !s.Time.IsZero():
		at = max(0, s.Time.UnixMilli())
	case s.Offset > 0:
		return s.Offset, nil
	}
	found, err := offsets(ctx, cl, topic, at, partition)
	if err == nil && found[partition] < 0 { // nothing that late
		found, err = offsets(ctx, cl, topic, timeEnd, partition)
	}
	return found[partition], err
}

// soon bounds a request whose answer is only for information.
const soon = 10 * time.Second
