package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tenure-go/tenure/shard"
)

// Kinds of operations on a register, which holds a number, at first 0.
const (
	opRead  = "read"
	opWrite = "write" // of Arg
	opAdd   = "add"   // of Arg; answers the sum

	// In rows only: what an owner writes by itself.
	opBeat  = "beat"  // one more than the last
	opFlush = "flush" // what it has in memory, at the tenure's end
)

// Outcomes of operations, as their clients know them.
const (
	ok        = "ok"
	fail      = "fail"      // it did not happen
	uncertain = "uncertain" // it happened, or will yet, or won't
)

// op is one operation as its client saw it. Times are since the run's start.
type op struct {
	ID      string        `json:"id"`
	Client  int           `json:"client"`
	Key     string        `json:"key"`
	Kind    string        `json:"kind"`
	Arg     int64         `json:"arg,omitempty"`
	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"`
	Outcome string        `json:"outcome"`
	Value   int64         `json:"value,omitempty"` // what was read, or the sum
	Epoch   shard.Epoch   `json:"epoch,omitzero"`  // who answered did so under it
	Node    string        `json:"node,omitempty"`  // and is this one
	Err     string        `json:"err,omitempty"`
}

// row is a write that a resource has accepted. Rows of one shard are in the order of their commits by N.
type row struct {
	Shard int         `json:"shard"`
	N     int64       `json:"n"`
	ID    string      `json:"id"` // of the operation
	Key   string      `json:"key"`
	Kind  string      `json:"kind"`
	Value int64       `json:"value"` // of the register from then on
	Epoch shard.Epoch `json:"epoch"`
	Node  string      `json:"node"`
	Twice bool        `json:"twice,omitempty"` // the same operation's row was written over
}

// final is a register in the end.
type final struct {
	Key   string `json:"key"`
	Value int64  `json:"value"`
}

// heading says what a history is of.
type heading struct {
	Seed    uint64      `json:"seed"`
	Group   shard.Group `json:"group"`
	Command string      `json:"command"`
	Partial bool        `json:"partial,omitempty"` // rows and finals could not all be read
}

// history is everything that the checks need.
type history struct {
	heading
	ops    []op
	rows   []row
	finals []final
	faults []happened
}

// line is one line of a history's file: one of them is set.
type line struct {
	Run   *heading  `json:"run,omitempty"`
	Fault *happened `json:"fault,omitempty"`
	Op    *op       `json:"op,omitempty"`
	Row   *row      `json:"row,omitempty"`
	Final *final    `json:"final,omitempty"`
}

// write stores h as lines of JSON.
func (h *history) write(name string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	put := func(l line) {
		if err == nil {
			err = e.Encode(l)
		}
	}
	put(line{Run: &h.heading})
	for i := range h.faults {
		put(line{Fault: &h.faults[i]})
	}
	for i := range h.ops {
		put(line{Op: &h.ops[i]})
	}
	for i := range h.rows {
		put(line{Row: &h.rows[i]})
	}
	for i := range h.finals {
		put(line{Final: &h.finals[i]})
	}
	return errors.Join(err, w.Flush())
}

func readHistory(name string) (*history, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var h history
	d := json.NewDecoder(bufio.NewReader(f))
	for n := 1; ; n++ {
		var l line
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		switch {
		case l.Run != nil:
			h.heading = *l.Run
		case l.Fault != nil:
			h.faults = append(h.faults, *l.Fault)
		case l.Op != nil:
			h.ops = append(h.ops, *l.Op)
		case l.Row != nil:
			h.rows = append(h.rows, *l.Row)
		case l.Final != nil:
			h.finals = append(h.finals, *l.Final)
		}
	}
	if h.Group.Shards == 0 {
		return nil, fmt.Errorf("%s is no history: it does not say of which group it is", name)
	}
	return &h, nil
}

// recorder collects operations. Safe for concurrent use.
type recorder struct {
	start time.Time

	mu     sync.Mutex // guards the rest
	ops    []op
	counts map[string]int // by outcome
}

func newRecorder() *recorder { return &recorder{start: time.Now(), counts: make(map[string]int)} }

// now is the time since the run's start.
func (r *recorder) now() time.Duration { return time.Since(r.start) }

func (r *recorder) add(o op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
	r.counts[o.Outcome]++
}

// all is a copy of what was collected.
func (r *recorder) all() []op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// outcomes counts operations by their outcome.
func (r *recorder) outcomes() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}
