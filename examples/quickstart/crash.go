package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/examples/internal/wait"
)

// crash kills a node and times until each of its shards takes writes again.
func (s *story) crash(ctx context.Context) error {
	id := nodeID(2)
	orphans := s.shardsOf(id)
	p := s.cluster.node(id)
	s.cluster.forget(id)
	killed := time.Now()
	p.kill()
	s.report.say("%s is killed (SIGKILL); its %d shards stay dark until its lease runs out, %v after it was renewed last",
		id, len(orphans), ttl)

	// One writer for each orphan, so that none is served unseen.
	served := make([]time.Time, len(orphans))
	failed := make([]error, len(orphans))
	var writers sync.WaitGroup
	defer writers.Wait()
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, shard := range orphans {
		writers.Go(func() {
			_, failed[i] = s.client.insist(writing, s.accounts.probes[shard], order{Op: s.client.op("crash"), Amount: 1})
			served[i] = time.Now()
		})
	}
	err := wait.Until(ctx, ttl+20*time.Second, "etcd to end the lease of "+id, func() (bool, string) {
		return !s.observer.goneSince(id).IsZero(), "its member key is still there"
	})
	if err != nil {
		return err
	}
	writers.Wait()
	for i, err := range failed {
		if err != nil {
			return fmt.Errorf("shard %d after the crash of %s: %w", orphans[i], id, err)
		}
		s.toServed = max(s.toServed, served[i].Sub(killed))
		s.expired = max(s.expired, served[i].Sub(s.observer.goneSince(id)))
	}
	if err := s.settled(ctx, nodeID(3), nodeID(4)); err != nil {
		return err
	}
	s.report.say("all of them take writes again, %.0f ms after the kill, %.0f ms after the lease's end: %s",
		millis(s.toServed), millis(s.expired), s.shares())
	return nil
}

// shardsOf are the shards that the table shows at id.
func (s *story) shardsOf(id string) []int {
	var shards []int
	for shard, account := range s.accounts.probes {
		if m, _ := s.table.Owner(account); m != nil && m.ID == id {
			shards = append(shards, shard)
		}
	}
	return shards
}
