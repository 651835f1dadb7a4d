package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/tenure-go/tenure/cas"
)

// accounts are the keys of the multi-key runs: few, so that operations meet.
var accounts = [...]string{prefix + "a", prefix + "b", prefix + "c"}

const funds = 100 // in each account at first

// purse is what an account holds. By names the operation that wrote it.
type purse struct {
	By string `json:"by"`
	N  int    `json:"n"`
}

// ledger is the state of all accounts, and what an audit returns.
type ledger [len(accounts)]purse

// move is an UpdateAll: N from one account to another, if it is there. One from an account to
// itself is an audit, which reads all.
type move struct {
	ID       string
	From, To int
	N        int
}

func (m move) audit() bool { return m.From == m.To }

// told is what it returned: what both purses held before, or of an audit what all did.
type told struct {
	Outcome cas.Outcome
	Poor    bool // not applied, because of what the purse held
	Before  ledger
}

func (m move) on(now ledger) ledger {
	if m.audit() || now[m.From].N < m.N {
		return now
	}
	now[m.From] = purse{m.ID, now[m.From].N - m.N}
	now[m.To] = purse{m.ID, now[m.To].N + m.N}
	return now
}

// sees returns what the operation reads of l.
func (m move) sees(l ledger) ledger {
	if m.audit() {
		return l
	}
	var seen ledger
	seen[m.From], seen[m.To] = l[m.From], l[m.To]
	return seen
}

func ledgerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any {
			var l ledger
			for i := range l {
				l[i].N = funds
			}
			return l
		},
		Step: func(state, input, output any) (bool, any) {
			now, m, o := state.(ledger), input.(move), output.(told)
			if o.Outcome != cas.Uncertain && (m.sees(now) != o.Before || o.Poor != (now[m.From].N < m.N)) {
				return false, now
			}
			return true, m.on(now)
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%v", state) },
	}
}
