package linear

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenure-go/tenure/cas"
)

// cell is what a key holds. The zero value is an absent key. By names the operation that wrote it, so
// that no two states of a key are alike unless it was deleted in between.
type cell struct {
	By    string `json:"by"`
	Count int    `json:"count"`
	Log   string `json:"log"`
	Reg   string `json:"reg"`
}

// verb is what an operation does to its key.
type verb string

const (
	get    verb = "get"
	add    verb = "add"    // Update: a counter
	extend verb = "extend" // Update: a list
	set    verb = "set"    // Update: a register
	put    verb = "put"    // Commit, if the key is as it was read
	remove verb = "remove" // Commit, likewise
)

// operation is one operation on one key.
type operation struct {
	ID     string
	Key    string
	Verb   verb
	N      int  // what add adds
	Seen   cell // what put and remove expect
	Guard  int64
	Replay bool // a finished one that was tried again
}

// on returns what the operation makes of c.
func (o operation) on(c cell) cell {
	switch o.Verb {
	case get:
		return c
	case remove:
		return cell{}
	case add:
		c.Count += o.N
	case extend:
		c.Log += o.ID + " "
	case set:
		c.Reg = o.ID
	case put:
		c = cell{Count: c.Count, Log: c.Log, Reg: "put " + o.ID}
	}
	c.By = o.ID
	return c
}

// answer is what a client was told. An outcome that is uncertain stands without a cell.
type answer struct {
	Outcome cas.Outcome
	Cell    cell
}

// step is the specification: one key, one operation at a time.
func step(state, input, output any) (bool, any) {
	now, o, a := state.(cell), input.(operation), output.(answer)
	if o.Verb == put || o.Verb == remove {
		if now != o.Seen {
			return a.Outcome == cas.Uncertain, now // it found another revision
		}
	}
	next := o.on(now)
	return a.Outcome == cas.Uncertain || a.Cell == next, next
}

func model() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			index := make(map[string]int)
			var parts [][]porcupine.Operation
			for _, o := range history {
				key := o.Input.(operation).Key
				i, ok := index[key]
				if !ok {
					i = len(parts)
					index[key] = i
					parts = append(parts, nil)
				}
				parts[i] = append(parts[i], o)
			}
			return parts
		},
		Init:  func() any { return cell{} },
		Step:  step,
		Equal: func(a, b any) bool { return a.(cell) == b.(cell) },
		DescribeOperation: func(input, output any) string {
			o, a := input.(operation), output.(answer)
			return fmt.Sprintf("%s %s(%s) %s: %+v", o.Key, o.Verb, o.ID, a.Outcome, a.Cell)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// The specification must refuse what it should, or nothing that it accepts means anything.
func TestModelRefuses(t *testing.T) {
	x := operation{ID: "x", Key: "k", Verb: add, N: 2}
	y := operation{ID: "y", Key: "k", Verb: extend}
	read := operation{ID: "r", Key: "k", Verb: get}
	applied := func(c cell) answer { return answer{cas.Applied, c} }
	afterX, afterXY := x.on(cell{}), y.on(x.on(cell{}))
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		"in order": {[]porcupine.Operation{
			{Input: x, Call: 1, Output: applied(afterX), Return: 2},
			{Input: y, Call: 3, Output: applied(afterXY), Return: 4},
			{Input: read, Call: 5, Output: applied(afterXY), Return: 6},
		}, porcupine.Ok},
		"stale read": {[]porcupine.Operation{
			{Input: x, Call: 1, Output: applied(afterX), Return: 2},
			{Input: read, Call: 3, Output: applied(cell{}), Return: 4},
		}, porcupine.Illegal},
		"applied twice": {[]porcupine.Operation{
			{Input: x, Call: 1, Output: applied(x.on(afterX)), Return: 2},
		}, porcupine.Illegal},
		"an effect without a cause": {[]porcupine.Operation{
			{Input: read, Call: 3, Output: applied(afterX), Return: 4},
		}, porcupine.Illegal},
		"uncertain, and seen late": {[]porcupine.Operation{
			{Input: x, Call: 1, Output: answer{}, Return: never},
			{Input: read, Call: 3, Output: applied(cell{}), Return: 4},
			{Input: read, Call: 5, Output: applied(afterX), Return: 6},
		}, porcupine.Ok},
		"uncertain, and seen before it began": {[]porcupine.Operation{
			{Input: read, Call: 1, Output: applied(afterX), Return: 2},
			{Input: x, Call: 3, Output: answer{}, Return: never},
		}, porcupine.Illegal},
		"uncertain, seen and gone": {[]porcupine.Operation{
			{Input: x, Call: 1, Output: answer{}, Return: never},
			{Input: read, Call: 3, Output: applied(afterX), Return: 4},
			{Input: read, Call: 5, Output: applied(cell{}), Return: 6},
		}, porcupine.Illegal},
		"put on what is no more": {[]porcupine.Operation{
			{Input: x, Call: 1, Output: applied(afterX), Return: 2},
			{Input: operation{ID: "p", Key: "k", Verb: put}, Call: 3, Output: applied(cell{Reg: "put p", By: "p"}), Return: 4},
		}, porcupine.Illegal},
	} {
		if got := porcupine.CheckOperationsTimeout(model(), c.history, time.Minute); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
