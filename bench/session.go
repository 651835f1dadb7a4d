package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/rival"
)

// session is one run of the program: questions are asked one after another, so that none disturbs another.
type session struct {
	options
	dir      string
	places   *rival.Places
	report   *report.Report
	progress progress
}

// asks are the questions, in the order in which they are asked.
var asks = []struct {
	name string
	ask  func(*session, context.Context) ([]*report.Table, error)
}{
	{"zombie", (*session).zombie},
	{"moving", (*session).moving},
	{"lost", (*session).lost},
	{"hot", (*session).hot},
	{"zipf", (*session).zipf},
	{"unsynced", (*session).unsynced},
	{"alone", (*session).alone},
	{"etcd", (*session).etcd},
	{"placement", (*session).placement},
	{"growth", (*session).growth},
	{"cost", (*session).cost},
}

// needs says what a question can't be asked without.
var needs = map[string]string{
	"unsynced": "needs -servers: fsync is turned off, which is done only to a Postgres that was started for it",
}

func names() []string {
	var all []string
	for _, a := range asks {
		all = append(all, a.name)
	}
	return all
}

func (s *session) wants(name string) bool {
	if s.only == "" {
		return true
	}
	for _, part := range list(s.only) {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func (s *session) askAll(ctx context.Context) error {
	var total time.Duration
	for _, a := range asks {
		if s.wants(a.name) {
			total += s.planned(a.name)
		}
	}
	fmt.Fprintf(os.Stderr, "planned: %s on a machine that has nothing else to do\n", total.Round(time.Second))
	for _, a := range asks {
		if !s.wants(a.name) {
			continue
		}
		s.progress.begin(a.name)
		tables, err := a.ask(s, ctx)
		s.progress.clear()
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		tables = slices.DeleteFunc(tables, func(t *report.Table) bool { return len(t.Rows) == 0 }) // ratios of contenders that are not here
		if len(tables) == 0 {
			fmt.Printf("\n%s: left out, %s\n", a.name, needs[a.name])
		}
		for _, t := range tables {
			report.WriteTable(os.Stdout, t)
		}
		s.report.Tables = append(s.report.Tables, tables...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// progress shows what is being done, on a terminal in one line that changes.
type progress struct{ terminal bool }

func (p progress) tell(what string) {
	if p.terminal {
		fmt.Fprintf(os.Stderr, "\r\x1b[K  … %s", what)
	}
}

// begin tells of a question, on anything: a log gets one line for each.
func (p progress) begin(name string) {
	if !p.terminal {
		fmt.Fprintf(os.Stderr, "asking: %s\n", name)
	}
}

func (p progress) clear() {
	if p.terminal {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}

func isTerminal() bool {
	info, err := os.Stderr.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
