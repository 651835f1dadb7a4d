package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/examples/internal/wait"
)

// join starts one more node, under load.
func (s *story) join(ctx context.Context) error {
	s.ledger.calm.Store(true)
	id := nodeID(founders + 1)
	s.report.say("%s joins; a fair share of the shards moves to it while the clients go on", id)
	if err := s.cluster.start(ctx, id); err != nil {
		return err
	}
	if err := s.settled(ctx, nodeID(1), nodeID(2), nodeID(3), id); err != nil {
		return err
	}
	s.report.say("%d shards have moved: %s", s.observer.moved(), s.shares())
	return s.pause(ctx, 300*time.Millisecond)
}

// leave asks the oldest node to go, which is the one that plans.
func (s *story) leave(ctx context.Context) error {
	id := nodeID(1)
	p := s.cluster.node(id)
	s.report.say("%s is asked to leave; it is the oldest, and so the one that plans", id)
	s.cluster.forget(id)
	defer p.kill()
	if err := askToLeave(p); err != nil {
		return fmt.Errorf("ask %s to leave: %w", id, err)
	}
	if err := s.settled(ctx, nodeID(2), nodeID(3), nodeID(4)); err != nil {
		return err
	}
	// It still forwards what clients send it, until they have noticed.
	err := wait.Until(ctx, 20*time.Second, id+" to exit", func() (bool, string) {
		select {
		case <-p.exited:
			return true, ""
		default:
			return false, "it still runs"
		}
	})
	if err != nil {
		return err
	}
	if p.status != nil {
		return fmt.Errorf("%s did not leave in good order: %w", id, p.failure())
	}
	s.report.say("it has handed everything over and is gone: %s", s.shares())
	s.ledger.calm.Store(false)
	err = wait.Until(ctx, longest, "what began before to be answered", func() (bool, string) {
		requests, shards := s.ledger.open.Load(), s.gaps.open.Load()
		return requests == 0 && shards == 0, fmt.Sprintf("%d requests have no answer, %d shards take no writes", requests, shards)
	})
	if err != nil {
		return err
	}
	gaps, failed := s.gaps.list(), s.ledger.failures()
	gap := spreadOf(gaps)
	s.report.say("%d hand-offs so far, %d failed requests; a shard took no writes for %.1f ms (p50), %.1f ms (p99)",
		len(gaps), failed, gap.P50, gap.P99)
	return nil
}
