package owner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tenure-go/tenure/owner/internal/machine"
	"github.com/tenure-go/tenure/shard"
)

// carryOut does one thing that the machine wants, or has it done.
func (l *loop) carryOut(e machine.Effect) {
	switch e := e.(type) {
	case machine.GrantLease:
		l.request(func(ctx context.Context) machine.Event {
			sent := l.node.clock.Now()
			lease, err := l.node.store.Grant(ctx, e.TTL)
			return machine.LeaseGranted{Sent: sent, Lease: lease, Err: err}
		})
	case machine.Renew:
		l.request(func(ctx context.Context) machine.Event {
			sent := l.node.clock.Now()
			lease, err := l.node.store.Renew(ctx, e.Lease)
			lease.ID = e.Lease
			l.node.counters.renewed(err)
			if err == nil && l.node.config.Hooks.Renewed != nil {
				now := l.node.clock.Now()
				l.node.config.Hooks.Renewed(now-sent, max(0, l.node.trustUntil()-now))
			}
			return machine.Renewed{Sent: sent, Lease: lease, Err: err}
		})
	case machine.Revoke:
		l.request(func(ctx context.Context) machine.Event {
			return machine.Revoked{Lease: e.Lease, Err: l.node.store.Revoke(ctx, e.Lease)}
		})
	case machine.Commit:
		l.request(func(ctx context.Context) machine.Event {
			rev, err := l.node.store.Commit(ctx, e.Txn)
			return machine.Committed{ID: e.ID, Rev: rev, Err: err}
		})
	case machine.Progress:
		l.request(func(ctx context.Context) machine.Event {
			_ = l.node.store.Progress(ctx) // if it fails no progress comes, and that is noticed
			return nil
		})
	case machine.Relist:
		select {
		case l.relist <- struct{}{}:
		default:
		}
	case machine.MakePlan:
		l.io.Go(func() {
			l.planner.mu.Lock()
			plan := l.planner.of.Plan(e.In)
			l.planner.mu.Unlock()
			l.node.mail.post(machine.Planned{Plan: plan})
		})
	case machine.Trust:
		l.node.trust.Store(int64(e.Until))
	case machine.Joined:
		l.node.joined.Store(true)
		l.node.log.Info("owner: joined", "revision", e.Created)
	case machine.Prepare:
		l.prepare(e)
	case machine.Unprepare:
		l.unprepare(e.Shard)
	case machine.Note:
		l.note(e)
	case machine.Exit:
		l.exited, l.result = true, exitError(e.Err)
	default:
		l.carryOutTenure(e)
	}
}

// carryOutTenure is carryOut for what happens to one tenure.
func (l *loop) carryOutTenure(e machine.Effect) {
	switch e := e.(type) {
	case machine.Start:
		l.start(e)
	case machine.Open:
		if t := l.tenure(e.Shard, e.Epoch); t != nil {
			t.gate.open()
			l.node.station(e.Shard).change.announce()
			l.report(t, Ready, nil)
		}
	case machine.Close:
		if t := l.tenure(e.Shard, e.Epoch); t != nil {
			l.report(t, Draining, nil)
			t.shut()
		}
	case machine.End:
		if t := l.tenure(e.Shard, e.Epoch); t != nil {
			t.stopWork(ErrHandoff)
		}
	case machine.Lose:
		if t := l.tenure(e.Shard, e.Epoch); t != nil {
			t.shut()
			t.lose(e.Reason)
			state, err := Lost, error(t.lost.Load())
			if e.Failed {
				state = Failed
			}
			if e.Err != nil {
				err = e.Err
			}
			l.report(t, state, err)
		}
	case machine.Overdue:
		if t := l.tenure(e.Shard, e.Epoch); t != nil {
			t.lose("it did not end within DrainTimeout")
			if e.Forced {
				l.report(t, Forced, t.lost.Load())
				l.forget(t)
				l.overdue = append(slices.DeleteFunc(l.overdue, ended), t.returned)
			}
		}
	case machine.Finish:
		if t := l.tenure(e.Shard, e.Epoch); t != nil {
			if t.latest.Load().State == Draining {
				state, err := HandedOff, e.Err
				if lost := t.lost.Load(); lost != nil {
					state, err = Failed, lost // it overstayed, under NeverForce
				}
				l.report(t, state, err)
			}
			l.forget(t)
		}
	default:
		panic(fmt.Sprintf("owner: unknown effect %T", e)) // a bug of this package's, found by its first test
	}
}

// request asks the store something and posts the answer.
func (l *loop) request(ask func(context.Context) machine.Event) {
	l.io.Go(func() {
		ctx, cancel := context.WithTimeout(l.ioCtx, machine.RequestTimeout(l.node.config.TTL))
		defer cancel()
		if ev := ask(ctx); ev != nil {
			l.node.mail.post(ev)
		}
	})
}

func (l *loop) tenure(s int, epoch shard.Epoch) *Tenure {
	if t := l.tenures[s]; t != nil && t.token.Epoch == epoch {
		return t
	}
	return nil
}

// start runs a handler under a new tenure.
func (l *loop) start(e machine.Start) {
	t := newTenure(l.node, e.Token)
	s := e.Token.Shard
	h := l.node.handler
	if p := l.prepared[s]; p != nil {
		if e.Prepared {
			h = p.handler // Prepared was posted, so it is there
		}
		l.unprepare(s)
	}
	t.since = t.born
	l.report(t, Granted, nil)
	l.tenures[s] = t
	st := l.node.station(s)
	st.tenure.Store(t)
	st.change.announce()
	go guarded(func() error { return h(t.work, t) }, func(err error) {
		if t.work.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrHandoff)) {
			err = nil // what it was doing ended with its context, as it should
		}
		t.hear(err)
		t.result = err
		t.self.release()
		close(t.returned)
	})
}

// guarded runs a function of the user's and tells done how it ended. A panic, or runtime.Goexit, is an error: it
// ends the tenure, never the process.
func guarded(fn func() error, done func(error)) {
	err := errors.New("owner: the function ended its goroutine (runtime.Goexit, or a test's FailNow)")
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("owner: panic: %v\n%s", p, debug.Stack())
		}
		done(err)
	}()
	err = fn()
}

// forget drops a tenure that is over or was given up on.
func (l *loop) forget(t *Tenure) {
	s := t.token.Shard
	t.cancel(context.Canceled)
	delete(l.tenures, s)
	st := l.node.station(s)
	st.tenure.CompareAndSwap(t, nil)
	st.change.announce()
}

// ended reports whether done is closed.
func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// preparation is a shard being warmed up.
type preparation struct {
	cancel  context.CancelFunc
	done    <-chan struct{} // closed when Prepare has returned
	handler Handler         // what it returned
}

func (l *loop) prepare(e machine.Prepare) {
	l.unprepare(e.Shard)
	ctx, cancel := context.WithTimeout(l.ioCtx, l.node.config.PrepareTimeout)
	done := make(chan struct{})
	p := &preparation{cancel: cancel, done: done}
	l.prepared[e.Shard] = p
	l.warming = append(slices.DeleteFunc(l.warming, func(p *preparation) bool { return ended(p.done) }), p)
	go guarded(func() (err error) {
		p.handler, err = l.node.config.Prepare(ctx, e.Shard)
		if err == nil && p.handler == nil {
			err = fmt.Errorf("owner: Prepare of shard %d returned no handler and no error", e.Shard)
		}
		return err
	}, func(err error) {
		cancel()
		close(done)
		l.node.mail.post(machine.Prepared{Shard: e.Shard, Move: e.Move, Err: err})
	})
}

func (l *loop) unprepare(s int) {
	if p := l.prepared[s]; p != nil {
		p.cancel()
		delete(l.prepared, s)
	}
}

// report tells the log and the hooks of a tenure's turn.
func (l *loop) report(t *Tenure, state State, err error) {
	now := l.node.clock.Now()
	ev := Event{Token: t.token, State: state, Took: now - t.since, Age: now - t.born, Err: err}
	t.since = now
	var from State
	if was := t.latest.Swap(&ev); was != nil {
		from = was.State
	}
	l.node.counters.turn(from, ev)
	attrs := []any{"shard", t.token.Shard, "epoch", t.token.Epoch, "state", string(state), "took", ev.Took.Round(time.Microsecond)}
	switch {
	case err != nil:
		l.node.log.Warn("owner: tenure", append(attrs, "err", err)...)
	default:
		l.node.log.Debug("owner: tenure", attrs...)
	}
	if l.node.config.Hooks.Tenure != nil {
		l.node.config.Hooks.Tenure(ev)
	}
}

func (l *loop) note(e machine.Note) {
	var attrs []any
	if e.Shard >= 0 {
		attrs = append(attrs, "shard", e.Shard)
	}
	if e.Err != nil {
		attrs = append(attrs, "err", e.Err)
	}
	l.node.log.Warn("owner: "+e.Text, attrs...)
}
