package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/tenure-go/tenure/owner"
)

// report prints what happens while it happens, and counts what nodes tell. Safe for concurrent use.
type report struct {
	mu    sync.Mutex // guards the rest, and whole lines on out
	out   io.Writer
	start time.Time
	stale [2]map[string]int // by kind of operation: refused by Postgres, by etcd
	late  int               // writes after a loss that were accepted
	turns map[owner.State]int
}

func newReport(out io.Writer) *report {
	return &report{
		out: out, start: time.Now(), turns: make(map[owner.State]int), stale: [2]map[string]int{{}, {}},
	}
}

func (r *report) begin(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = at
}

func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%6.1fs  %s\n", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// heard takes what a node tells.
func (r *report) heard(_ string, ev event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ev.Stale != nil && inStore(ev.Stale.Token.Shard):
		r.stale[1][ev.Stale.Kind]++
	case ev.Stale != nil:
		r.stale[0][ev.Stale.Kind]++
	case ev.Late != nil:
		r.late++
	case ev.Turn != nil:
		r.turns[ev.Turn.State]++
	}
}

// stales is how many writes and reads under an epoch that was over each resource has refused.
func (r *report) stales() (sql, store int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return total(r.stale[0]), total(r.stale[1])
}

func total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// acknowledged is how long the operations took that succeeded, sorted.
func acknowledged(ops []op) []time.Duration {
	var all []time.Duration
	for _, o := range ops {
		if o.Outcome == ok {
			all = append(all, o.Return-o.Call)
		}
	}
	slices.Sort(all)
	return all
}

// progress prints a line.
func (r *report) progress(rec *recorder, o *owners, done []happened, now []fault) {
	c := rec.outcomes()
	sql, store := r.stales()
	var words []string
	for _, f := range now {
		words = append(words, f.Kind)
	}
	r.mu.Lock()
	handed := r.turns[owner.HandedOff]
	ended := r.turns[owner.Lost] + r.turns[owner.Failed] + r.turns[owner.Forced]
	r.mu.Unlock()
	r.say("ok %d, fail %d, uncertain %d; faults %d; stale refused %d+%d; handed over %d, broken off %d; unowned %d; now: %s",
		c[ok], c[fail], c[uncertain], len(done), sql, store, handed, ended, o.of(""), strings.Join(words, " "))
}

// summary prints the tables of the end.
func (r *report) summary(h *history, c map[string]int, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := newAudit()
	a.accepted(h.rows)
	fmt.Fprintf(r.out, "\n%d operations on %d registers: %d ok, %d failed for certain, %d uncertain\n",
		len(h.ops), len(byRegister(h.ops)), c[ok], c[fail], c[uncertain])
	if took := acknowledged(h.ops); len(took) > 0 {
		fmt.Fprintf(r.out, "acknowledged within %v (p50), %v (p99), %v (most)\n",
			took[len(took)/2].Round(ms/10), took[len(took)*99/100].Round(ms/10), took[len(took)-1].Round(ms/10))
	}
	fmt.Fprintf(r.out, "%d writes accepted under %d epochs of %d shards; checked in %.1fs\n", len(h.rows), a.tenures(), h.Group.Shards, took.Seconds())
	fmt.Fprintf(r.out, "stale writes and reads refused: %d by Postgres %v, %d by etcd %v; after a loss, but before another owner, accepted: %d\n",
		total(r.stale[0]), r.stale[0], total(r.stale[1]), r.stale[1], r.late)
	fmt.Fprintf(r.out, "tenures: %d granted, %d ready, %d handed over, %d lost, %d failed, %d forced\n",
		r.turns[owner.Granted], r.turns[owner.Ready], r.turns[owner.HandedOff], r.turns[owner.Lost], r.turns[owner.Failed], r.turns[owner.Forced])
	if len(h.faults) == 0 {
		return
	}
	fmt.Fprintf(r.out, "%d faults; how long the shard that suffered most was without an acknowledged operation:\n", len(h.faults))
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  kind\tcount\tp50\tp99\tmost")
	for _, g := range gapsOf(h) {
		fmt.Fprintf(table, "  %s\t%d\t%.2fs\t%.2fs\t%.2fs\n", g.kind, g.count, g.p50.Seconds(), g.p99.Seconds(), g.most.Seconds())
	}
	_ = table.Flush()
}
