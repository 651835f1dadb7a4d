package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/examples/internal/wait"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// stale is a write under an epoch that was over, as the node that sent it tells.
type stale struct {
	Op        string
	Attempted int         // statements that reached the database
	Refused   int         // of those, how many the fence refused
	Mine      shard.Epoch // of the write
	Current   shard.Epoch `json:",omitzero"` // that refused it
	Err       string      `json:",omitempty"`
	Node      string      `json:"-"` // the parent's note
}

// fallAsleep stops this process: the zombie's part. It holds the process's lock meanwhile, so that no writing
// transaction of it is open: on SQLite that would block every other node for as long as it sleeps.
func (d *desk) fallAsleep(ctx context.Context) error {
	release, err := d.turns.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	d.tell(event{Asleep: true})
	if err := stopSelf(); err != nil {
		return fmt.Errorf("stop this process: %w", err)
	}
	// The signal stops all threads, but not in the same instant: be sure that this one has been.
	time.Sleep(50 * time.Millisecond)
	return nil
}

// reportStale tells the parent of a write that came too late: one that the fence has refused, and the zombie's,
// whatever became of it.
func (d *desk) reportStale(r request, statements int, err error) {
	fenced, refused := errors.AsType[*fence.FencedError](err)
	if !refused && !r.Pause {
		return
	}
	s := &stale{Op: r.Op, Attempted: statements, Mine: d.token.Epoch}
	if refused {
		s.Refused, s.Current = statements, fenced.Current
	}
	if err != nil {
		s.Err = err.Error()
	}
	d.tell(event{Stale: s})
}

// haunt makes a zombie: a node that is stopped between deciding to write and writing, and goes on when another
// has taken over. Nobody writes to the account after it, so if its write lands it stays.
func (s *story) haunt(ctx context.Context) error {
	if !canPause {
		s.report.say("this system can't stop and continue a process, so there is no zombie")
		return nil
	}
	id := nodeID(3)
	zombie := s.cluster.node(id)
	owned := s.shardsOf(id)
	if len(owned) == 0 {
		return fmt.Errorf("%s owns no shard to haunt: %s", id, s.shares())
	}
	account := s.accounts.probes[owned[0]]
	const each = 10
	before, err := s.client.insist(ctx, account, order{Op: s.client.op("before"), Amount: each})
	if err != nil {
		return err
	}

	late := order{Op: s.client.op("late"), Amount: each, Pause: true}
	answered := make(chan error, 1)
	sending, cancel := context.WithCancel(ctx)
	var sender sync.WaitGroup
	defer sender.Wait()
	defer cancel()
	sender.Go(func() {
		_, err := s.client.try(sending, zombie, account, late)
		answered <- err
	})
	stopped, err := s.sleeping(ctx, id, answered)
	if err != nil {
		return err
	}
	s.report.say("%s, about to write a new balance of %s under epoch %s, is stopped (SIGSTOP)", id, account, before.Epoch)

	err = wait.Until(ctx, ttl+20*time.Second, "another node to own "+account, func() (bool, string) {
		m, _ := s.table.Owner(account)
		return m != nil && m.ID != id, s.shares()
	})
	if err != nil {
		return err
	}
	const others = 5
	var after answer
	for range others {
		if after, err = s.client.insist(ctx, account, order{Op: s.client.op("after"), Amount: each}); err != nil {
			return err
		}
	}
	if after.Node == id || after.Epoch <= before.Epoch {
		return fmt.Errorf("%s wrote to %s under %s: want another node, under an epoch above %s",
			after.Node, account, after.Epoch, before.Epoch)
	}
	s.report.say("its lease has run out; %s owns the account under epoch %s, and acknowledges %d deposits to it",
		after.Node, after.Epoch, others)

	if err := wake(zombie); err != nil {
		return fmt.Errorf("continue %s: %w", id, err)
	}
	what, err := s.staleWrite(ctx, id, late.Op)
	if err != nil {
		return err
	}
	s.tellOfZombie(id, stopped, what)
	return s.afterlife(ctx, account, late, answered)
}

// sleeping waits until the node has said that it stops itself.
func (s *story) sleeping(ctx context.Context, id string, answered <-chan error) (time.Time, error) {
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	select {
	case who := <-s.asleep:
		if who != id {
			return time.Time{}, fmt.Errorf("%s stopped itself, and %s was to", who, id)
		}
		return time.Now(), nil
	case err := <-answered:
		return time.Time{}, fmt.Errorf("%s was to stop in the middle of an order, and answered it: %w", id, err)
	case <-timeout.C:
		return time.Time{}, fmt.Errorf("waited 10s for %s to stop itself", id)
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// staleWrite waits for the zombie to tell what became of its write.
func (s *story) staleWrite(ctx context.Context, id, op string) (what stale, err error) {
	err = wait.Until(ctx, 20*time.Second, id+" to send its late write", func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, what = range s.stales {
			if what.Op == op {
				return true, ""
			}
		}
		return false, "it is silent"
	})
	return what, err
}

func (s *story) tellOfZombie(id string, stopped time.Time, what stale) {
	switch {
	case what.Refused > 0:
		s.report.say("%s (stopped at %s) woke and sent its write under epoch %s; the database refused it: it is sealed for %s now",
			id, s.report.at(stopped), what.Mine, what.Current)
	case what.Err == "":
		s.report.say("%s (stopped at %s) woke and sent its write under epoch %s; the database TOOK it",
			id, s.report.at(stopped), what.Mine)
	default:
		s.report.say("%s (stopped at %s) woke; its write under epoch %s failed, but not at the fence: %s",
			id, s.report.at(stopped), what.Mine, what.Err)
	}
}

// afterlife sends the zombie's order again if it was refused, as its client would, and sees the node come back as
// a member like any other.
func (s *story) afterlife(ctx context.Context, account string, late order, answered <-chan error) error {
	if err := <-answered; err != nil {
		late.Pause = false
		a, err := s.client.insist(ctx, account, late)
		if err != nil {
			return err
		}
		s.report.say("its client was told so and sent the order again; %s applied it, once", a.Node)
	} else {
		s.report.say("its client was told that all is well")
	}
	if err := s.settled(ctx, nodeID(3), nodeID(4)); err != nil {
		return err
	}
	s.report.say("%s has joined again, as a member like any other: %s", nodeID(3), s.shares())
	return nil
}
