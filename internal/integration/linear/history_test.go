package linear

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenure-go/tenure/cas"
)

// never is when an operation returns that was never told its outcome.
const never = math.MaxInt64

// record is one operation and what became of it.
type record struct {
	operation
	client int
	call   int64
	ret    int64
	answer answer
	rev    int64 // of a read: what it said
	tries  int   // calls of Update and Resolve
}

// history is what clients were told, in the order of one counter. Safe for concurrent use.
type history struct {
	mu      sync.Mutex // guards the rest
	now     int64
	records []*record
}

func (h *history) begin(client int, o operation) *record {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	r := &record{operation: o, client: client, call: h.now, ret: never}
	h.records = append(h.records, r)
	return r
}

// insert adds what an operation has seen besides.
func (h *history) insert(r *record) *record {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
	return r
}

// end notes the first definite answer.
func (h *history) end(r *record, a answer, rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	if r.ret == never {
		r.ret, r.answer, r.rev = h.now, a, rev
	}
}

// known returns what r's clients were told so far.
func (h *history) known(r *record) answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return r.answer
}

func (h *history) tried(r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.tries++
}

func (h *history) String() string {
	var b strings.Builder
	for _, r := range h.records {
		ret := fmt.Sprint(r.ret)
		if r.ret == never {
			ret = "never"
		}
		fmt.Fprintf(&b, "%4d-%-5s client %d: %s %s %s, %d tries, guard %d: %s %+v at %d\n",
			r.call, ret, r.client, r.Key, r.Verb, r.ID, r.tries, r.Guard, r.answer.Outcome, r.answer.Cell, r.rev)
	}
	return b.String()
}

// operations are the history as porcupine wants it. What was not applied has had no effect and says
// nothing, so it is left out. What is uncertain could stand open to the end, but every operation that
// stands open multiplies the orders to be looked at. So one that the log does not know is left out,
// and another ends when somebody is told of its effect. That leaves fewer orders that could explain
// the history, so it can't hide a fault.
func (h *history) operations(l storeLog) []porcupine.Operation {
	var ops []porcupine.Operation
	for _, r := range h.records {
		if r.answer.Outcome == cas.NotApplied || r.answer.Outcome == cas.Uncertain && !l.applied(r.operation) {
			continue
		}
		o := porcupine.Operation{ClientId: r.client, Input: r.operation, Call: r.call, Output: r.answer, Return: r.ret}
		if r.ret == never && r.Verb != remove {
			for _, other := range h.records {
				if a := other.answer; other.Key == r.Key && a.Outcome == cas.Applied &&
					(a.Cell.By == r.ID || strings.Contains(" "+a.Cell.Log, " "+r.ID+" ")) {
					o.Return = min(o.Return, other.ret)
				}
			}
		}
		ops = append(ops, o)
	}
	return ops
}

// outcomes counts them.
func (h *history) outcomes() map[cas.Outcome]int {
	n := make(map[cas.Outcome]int)
	for _, r := range h.records {
		if r.Verb != get {
			n[r.answer.Outcome]++
		}
	}
	return n
}

// linearizable asks porcupine.
func (h *history) linearizable(t *testing.T, name string, l storeLog) bool {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(model(), h.operations(l), time.Minute)
	switch result {
	case porcupine.Ok:
		return true
	case porcupine.Unknown:
		t.Fatalf("%s: porcupine came to no result within a minute, on %d operations", name, len(h.records))
	case porcupine.Illegal:
		picture := filepath.Join(t.ArtifactDir(), name+".html")
		if err := porcupine.VisualizePath(model(), info, picture); err != nil {
			t.Logf("%s: no picture: %v", name, err)
		}
	}
	return false
}
