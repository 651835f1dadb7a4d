package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-go/tenure/examples/internal/wait"
)

// askers is how many clients ask at a time.
const askers = 4

// work begins to produce and to ask.
func (s *story) work(ctx context.Context) error {
	var err error
	if s.load, err = newLoad(s.brokers.addresses, s.role.Group, s.role.Topics, plan(s.role.Group, s.seed, s.records)); err != nil {
		return err
	}
	s.later(func() error { s.load.close(); return nil })
	asking, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	s.produced = make(chan error, 1)
	done.Go(func() { s.produced <- s.load.run(ctx, s.over) })
	all := slices.Concat(s.customers...)
	for part := range slices.Chunk(all, (len(all)+askers-1)/askers) {
		done.Go(func() { s.desk.ask(asking, part) })
	}
	done.Go(func() { s.watchLag(asking) })
	s.quiet = func() { stop(); done.Wait() }
	s.later(func() error { s.fail(nil); s.quiet(); return nil })
	s.say("%d records come in %v, for %d customers, some of them spoilt; %d clients ask for accounts, through any node", s.records, s.over, len(all), askers)
	return nil
}

// watchLag keeps the most records that waited: acknowledged to the producer, and not applied. The owners' answer would do, but
// while a shard has no owner there is none for it.
func (s *story) watchLag(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		acked := s.load.sound() // first: what is applied then is not taken for more than there is
		applied, err := s.db.applied(ctx)
		if err != nil {
			continue // it is a figure; what matters is counted elsewhere
		}
		s.mu.Lock()
		s.waited = max(s.waited, acked-applied)
		s.mu.Unlock()
	}
}

// takeWaited is the most records that waited since it was last asked for.
func (s *story) takeWaited() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.waited
	s.waited = 0
	return n
}

// sent waits until that part of the records has been produced.
func (s *story) sent(ctx context.Context, part float64) error {
	return wait.Until(ctx, s.limit, fmt.Sprintf("%.0f %% of the records", 100*part), func() (bool, string) {
		return s.load.part() >= part, fmt.Sprintf("%.0f %%", 100*s.load.part())
	})
}

// leave has a node leave in good order. No question may fail for that.
func (s *story) leave(ctx context.Context) error {
	if err := s.sent(ctx, 0.15); err != nil {
		return err
	}
	name := nodeName(0)
	n := s.owned()[name]
	s.takeWaited()
	s.desk.begin(leaving)
	began := time.Now()
	s.gone(name)
	if err := s.post(ctx, name, "/leave"); err != nil {
		return fmt.Errorf("ask %s to leave: %w", name, err)
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	err := wait.Until(ctx, 20*time.Second, name+" to end", func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.left[name], "it has not left"
	})
	if err != nil {
		return err
	}
	s.fleet.Kill(name) // it has nothing left to do
	s.desk.begin(calm)
	s.say("%s has left: its %d shards were handed over in %d ms, %d records waited at most", name, n, took.Milliseconds(), s.takeWaited())
	return nil
}

// crash kills a node. Questions may fail until its shards are served again.
func (s *story) crash(ctx context.Context) error {
	if err := s.sent(ctx, 0.40); err != nil {
		return err
	}
	name := nodeName(1)
	n := s.owned()[name]
	s.takeWaited()
	s.desk.begin(killed)
	began := time.Now()
	s.fleet.Kill(name)
	s.gone(name)
	if err := s.settled(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	if err := s.answeredAgain(ctx); err != nil {
		return err
	}
	s.desk.begin(calm)
	s.say("%s was killed: its %d shards have owners again after %.1f s (the TTL is %v), %d records waited at most", name, n, took.Seconds(), ttl, s.takeWaited())
	return nil
}

// answeredAgain waits until a customer of each shard is answered for.
func (s *story) answeredAgain(ctx context.Context) error {
	return wait.Until(ctx, 30*time.Second, "all shards to be served", func() (bool, string) {
		first := make([]string, len(s.customers))
		for i, of := range s.customers {
			first[i] = of[0]
		}
		_, err := s.desk.all(ctx, first)
		return err == nil, fmt.Sprint(err)
	})
}

// comeBack starts the node that was killed again.
func (s *story) comeBack(ctx context.Context) error {
	if err := s.sent(ctx, 0.60); err != nil {
		return err
	}
	name := nodeName(1) + "-again"
	s.desk.begin(joining)
	if err := s.start(ctx, name); err != nil {
		return err
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	s.desk.begin(calm)
	s.say("%s was started in its place: it has %d shards", name, s.owned()[name])
	close(s.load.release)
	return nil
}

// finish waits until all is consumed, gathers the evidence, and judges.
func (s *story) finish(ctx context.Context) error {
	select {
	case err := <-s.produced:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.say("all %d records are produced", s.records)
	e := evidence{group: s.role.Group, produced: s.load.produced(), spoilt: s.load.spoilt()}
	behind := s.caughtUp(ctx, e)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.quiet()
	if behind != nil {
		s.say("%v", behind) // the audit says what is missing
	}
	var err error
	if e.lag, err = s.desk.lag(ctx); err != nil {
		return fmt.Errorf("ask for the lag: %w", err)
	}
	e.stale = s.desk.stale
	if e.answers, err = s.desk.all(ctx, slices.Concat(s.customers...)); err != nil {
		return err
	}
	s.fleet.Stop()
	if e.entries, err = s.db.entries(ctx); err != nil {
		return err
	}
	if e.accounts, err = s.db.accounts(ctx, -1); err != nil {
		return err
	}
	if e.log, err = s.brokers.log(ctx); err != nil {
		return err
	}
	if e.dead, err = s.brokers.dead(ctx); err != nil {
		return err
	}
	s.evidence, s.findings = e, verify(e)
	return nil
}

// caughtUp waits until nothing is left to consume: usually moments, but a minute if a spoilt record has come last after all.
func (s *story) caughtUp(ctx context.Context, e evidence) error {
	return wait.Until(ctx, 90*time.Second, "the lag to be gone", func() (bool, string) {
		applied, err := s.db.applied(ctx)
		if err != nil {
			return false, err.Error()
		}
		a, err := s.desk.lag(ctx)
		done := err == nil && a.Known && a.Lag == 0 && applied >= e.produced-len(e.spoilt)
		return done, fmt.Sprintf("%d are applied, the owners say %+v, %v", applied, a, err)
	})
}

// verdict prints what has come of it.
func (s *story) verdict() bool {
	f, p := s.findings, func(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }
	p("\n")
	p("  records       %d in both topics, %d of them spoilt\n", f.Records, f.Spoilt)
	p("  applied       %d: %d lost, %d twice, %d out of their customer's order, %d that should not be\n", f.Applied, f.Lost, f.Twice, f.Disordered, f.Foreign)
	p("  accounts      %d in the database are not as a serial replay makes them, and %d as their owners tell them\n", f.Accounts, f.Answers)
	p("  dead letters  %d of the spoilt records, %d missing, %d wrong", f.Dead, f.Undead, f.Sound)
	if f.Again > 0 {
		p("; %d there once more, as a kill in between leaves them", f.Again)
	}
	p("\n")
	for _, why := range []flaw{malformed, refused, misplaced} {
		if i := slices.IndexFunc(s.evidence.dead, func(d dead) bool { return s.evidence.spoilt[d.place] == why }); i >= 0 {
			d := s.evidence.dead[i]
			p("                %v, tries: %d: %s\n", d.place, d.tries, short(d.why, 110))
		}
	}
	faults := f.faults
	for i, a := range []act{calm, leaving, killed, joining} {
		t := s.desk.tally(a)
		p("  %-12s  %d answered, %d told to come again, %d broken off, the slowest took %d ms: %s\n",
			[]string{"questions", "", "", ""}[i], t.answered, t.putOff, t.broken, t.slowest.Milliseconds(), a)
		if t.putOff+t.broken > 0 && a != killed {
			faults = append(faults, fmt.Sprintf("%d questions failed %s; the last: %v", t.putOff+t.broken, a, t.last))
		}
		if t.answered == 0 {
			faults = append(faults, fmt.Sprintf("no question was answered %s", a))
		}
	}
	p("\n")
	const shown = 10
	for _, fault := range faults[:min(shown, len(faults))] {
		p("WRONG: %s\n", fault)
	}
	if more := len(faults) - shown; more > 0 {
		p("WRONG: and %d more\n", more)
	}
	if len(faults) > 0 {
		return false
	}
	p("GOOD: each record was applied once, over a leave and a kill, in %.0f s (seed %d).\n", time.Since(s.began).Seconds(), s.seed)
	return true
}

// short is a text's beginning, and says so if there is more.
func short(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
