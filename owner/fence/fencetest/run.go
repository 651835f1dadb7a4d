package fencetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Run runs the suite, one subtest for each test that s has what it takes for. Given names, only those.
func Run(t *testing.T, s Subject, names ...string) {
	t.Helper()
	for _, test := range suite {
		if len(names) > 0 && !slices.Contains(names, test.name) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			run := func(t *testing.T, level string) {
				x := &fixture{Subject: s, tb: t, level: level}
				if missing := x.prepare(test); missing != "" {
					t.Skip(missing)
				}
				test.run(t, x)
			}
			levels := s.levels(test)
			if len(levels) == 1 {
				run(t, "")
				return
			}
			for _, level := range levels {
				name := level
				if name == "" {
					name = "default"
				}
				t.Run(name, func(t *testing.T) { run(t, level) })
			}
		})
	}
}

// Faults runs the suite on a fence that may be broken, and returns the names of the tests that fail, in
// order; of those named, if any are. What they say is logged.
func Faults(t testing.TB, s Subject, names ...string) []string {
	t.Helper()
	var failed []string
	for _, test := range suite {
		if len(names) > 0 && !slices.Contains(names, test.name) {
			continue
		}
		for _, level := range s.levels(test) {
			x := &fixture{Subject: s, tb: t, level: level}
			if x.prepare(test) != "" {
				continue
			}
			r := &recorder{ctx: t.Context()}
			done := make(chan struct{})
			go func() { // of its own, because Fatalf ends it
				defer close(done)
				test.run(r, x)
			}()
			<-done
			if len(r.said) == 0 {
				continue
			}
			t.Logf("%s %s fails: %s", test.name, level, strings.Join(r.said, "; "))
			if !slices.Contains(failed, test.name) {
				failed = append(failed, test.name)
			}
		}
	}
	return failed
}

// levels are those to run a test at.
func (s Subject) levels(test test) []string {
	if test.need&eachLevel == 0 || len(s.Levels) == 0 {
		return []string{""}
	}
	return append([]string{""}, s.Levels...)
}

// prepare makes the fence, and says what a test needs that it has not got, or "".
func (x *fixture) prepare(test test) string {
	n := test.need
	if n&manyWriters != 0 && x.OneWriter {
		return "one writer at a time: this can't come about"
	}
	if n&frees != 0 && !x.Frees {
		return "nothing bounds a paused transaction"
	}
	x.tb.Helper()
	x.fence = x.New(x.tb, Options{Level: x.level, Idle: test.idle})
	switch f := x.fence; {
	case n&transactions != 0 && !is[Transactional](f):
		return "it has no transactions"
	case n&positions != 0 && !is[Positional](f):
		return "it stores no positions"
	case n&sealAll != 0 && !is[GroupSealer](f):
		return "it can't seal a group"
	case n&network != 0 && (!is[Reopener](f) || f.(Reopener).Addr() == ""):
		return "there is no network in between"
	}
	return ""
}

func is[I any](f Fence) bool { _, ok := f.(I); return ok }

// recorder is a T that keeps what is said.
type recorder struct {
	ctx  context.Context
	mu   sync.Mutex // guards said
	said []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
