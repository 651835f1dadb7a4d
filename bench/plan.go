package main

import (
	"context"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/moving"
	"github.com/tenure-go/tenure/bench/internal/question"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/rival"
	"github.com/tenure-go/tenure/bench/internal/zombie"
)

// choose picks what the size of the run asks for.
func choose[T any](o options, quick, ordinary, full T) T {
	switch {
	case o.quick:
		return quick
	case o.full:
		return full
	default:
		return ordinary
	}
}

// withDefaults says how often things are done, where that was not said.
func (o options) withDefaults() options {
	if o.rounds == 0 {
		o.rounds = choose(o, 2, 3, 5)
	}
	if o.trials == 0 {
		o.trials = choose(o, 1, 3, 10)
	}
	return o
}

// pace is how long a contender's turn is, and how many there are.
func (s *session) pace(quick, ordinary, full time.Duration) question.Pace {
	d := choose(s.options, quick, ordinary, full)
	return question.Pace{Rounds: s.rounds, Warm: d / 4, For: d, Told: s.progress.tell}
}

// moves is the number of trials in which ownership moves in good order.
func (s *session) moves() int { return min(s.trials, 5) }

// longest is the longest TTL that is waited for.
func (s *session) longest() time.Duration {
	return choose(s.options, zombie.Tolerable, zombie.Tolerable, time.Hour)
}

func (s *session) benchtime() time.Duration {
	return choose(s.options, 20*time.Millisecond, 80*time.Millisecond, 200*time.Millisecond)
}

func (s *session) consumption() question.Consumption {
	return question.Consumption{Broker: s.places.Kafka, Run: s.places.Run, Records: choose(s.options, 20_000, 50_000, 200_000), Rounds: choose(s.options, 1, 3, 5)}
}

// load is a question about rates.
type load struct {
	question.Load
	pace question.Pace
	on   rival.On
}

func (l load) ask(ctx context.Context) (*report.Table, []measure.Result) {
	return l.Ask(ctx, l.pace, l.on)
}

// What is done besides measuring, on a machine that does nothing else: to open a contender and to close it, and to wait at the end of a turn until
// those who still stand in line have had theirs.
const (
	opening  = 50 * time.Millisecond
	draining = 1500 * time.Microsecond // for each client
)

func (l load) planned() time.Duration {
	turn := l.pace.Warm + l.pace.For + time.Duration(l.Work.Clients)*draining
	return time.Duration(len(l.on.Contenders)) * (opening + time.Duration(l.pace.Rounds)*turn)
}

// planned is about how long each question takes. It is told to the reader, and held to what is promised by a test.
func (s *session) planned(name string) time.Duration {
	switch name {
	case "zombie":
		return s.zombiePlanned()
	case "lost":
		p, mistakes, proper, _ := s.lostLoad()
		return time.Duration(len(mistakes)+len(proper)) * (opening + p.For + clients*draining)
	case "hot":
		return s.hotLoad().planned()
	case "zipf":
		return s.zipfLoad().planned()
	case "unsynced":
		return s.unsyncedLoad().planned()
	case "alone":
		return s.aloneLoad().planned()
	case "etcd":
		return s.etcdLoad().planned()
	case "moving":
		return s.movingPlanned()
	case "growth":
		var sum time.Duration
		for _, size := range s.sizes() {
			sum += size.Planned()
		}
		return sum
	case "cost":
		return 8*3*time.Duration(s.consumption().Rounds)*s.benchtime() + s.consumption().Planned()
	default:
		return 0
	}
}

func (s *session) zombiePlanned() time.Duration {
	const starting = 500 * time.Millisecond
	kinds, held := 0, 0
	var ttl, killed time.Duration
	for _, k := range zombie.Kinds(s.addresses) {
		if k.TTL > s.longest() {
			continue
		}
		kinds++
		ttl = max(ttl, k.TTL)
		if k.Holds() {
			held++
			killed += k.TTL + starting
		}
	}
	trial := ttl*5/4 + starting
	if s.addresses.Postgres != "" { // an advisory lock that its holder keeps: as long as anybody waits
		trial = max(trial, zombie.Patience*zombie.TTL+starting)
	}
	sum := time.Duration(s.trials) * trial
	if !s.quick {
		n := time.Duration(min(s.trials, 5))
		sum += n*killed/question.KilledTogether + n*time.Duration(held)*(2*starting)/question.ReleasedTogether
	}
	return sum
}

func (s *session) movingPlanned() time.Duration {
	trial := time.Duration(len(moving.Contenders())) * 800 * time.Millisecond
	if s.places.Kafka != nil {
		for _, c := range moving.Consumers(s.places.Kafka) {
			if s.full || !c.Slow {
				trial += c.Planned()
			}
		}
	}
	return time.Duration(s.moves()) * trial
}
