package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
)

// Schedule runs a job at its planned times, each once and in order, on whichever node owns a group of one shard. The planned
// time is the idempotency key: a run that a crash cut off is taken up by the next owner where it stopped, and times
// that passed meanwhile are made up for.
type Schedule struct {
	Name   string // of the job: the idempotency keys' scope
	Store  cas.Store
	Engine *idem.Engine
	Next   func(time.Time) time.Time // the planned time after this one: of a cron parser, say
	Job    func(ctx context.Context, op *idem.Op, at time.Time) error
	Logger *slog.Logger
}

// progress is what the group knows of a schedule: the planned time that is to be run next.
type progress struct {
	Next time.Time `json:"next"`
}

// Serve is an owner.Handler.
func (s *Schedule) Serve(ctx context.Context, t *owner.Tenure) error {
	at, err := s.resume(ctx, t)
	if err != nil {
		return err
	}
	t.Ready()
	for waitUntil(ctx, at) {
		if err := s.run(ctx, t, at); err != nil {
			if ctx.Err() != nil {
				return nil // handed over, or lost: the next owner goes on with this time
			}
			return err // the tenure ends, and the next one tries again, later each time
		}
		if at, err = s.advance(ctx, t, at); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schedule) run(ctx context.Context, t *owner.Tenure, at time.Time) error {
	_, err := idem.Do(ctx, s.Engine, idem.Request{Scope: s.Name, Key: at.UTC().Format(time.RFC3339Nano), Token: t.Token()},
		func(ctx context.Context, op *idem.Op) (struct{}, error) { return struct{}{}, s.Job(ctx, op, at) })
	if failed, ok := errors.AsType[*idem.FailedError](err); ok {
		s.Logger.Error("the job has failed for good, and goes on with its next time", "at", at, "err", failed)
		return nil
	}
	return err
}

// resume is the time to go on with. The guard refuses an owner that has been replaced.
func (s *Schedule) resume(ctx context.Context, t *owner.Tenure) (time.Time, error) {
	p, err := cas.Update(ctx, s.Store, s.key(), func(p *progress) error {
		if p.Next.IsZero() {
			p.Next = s.Next(time.Now())
		}
		return nil
	}, cas.UpdateConfig{Guards: []cas.Cond{t.Guard()}})
	return p.Next, wrap("resume", err)
}

// advance says that at is done. Should its outcome be uncertain the tenure ends: the next owner finds at in the store still, and
// its key done, or what comes after it.
func (s *Schedule) advance(ctx context.Context, t *owner.Tenure, at time.Time) (time.Time, error) {
	p, err := cas.Update(ctx, s.Store, s.key(), func(p *progress) error {
		p.Next = s.Next(at)
		return nil
	}, cas.UpdateConfig{Guards: []cas.Cond{t.Guard()}})
	return p.Next, wrap("advance", err)
}

func (s *Schedule) key() string { return "/schedules/" + s.Name }

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("scheduler: %s: %w", what, err)
	}
	return nil
}

// waitUntil reports whether at has come, and not ctx's end.
func waitUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
