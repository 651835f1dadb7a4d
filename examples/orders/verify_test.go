package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// played is the evidence of a run that went well: six records of a customer, and three that are spoilt in three ways.
func played() evidence {
	customer := customersOf(group)[2][0]
	e := evidence{
		group: group, spoilt: make(map[place]flaw), accounts: make(map[string]account), answers: make(map[string]statement),
		lag: lagAnswer{Known: true},
	}
	a := account{}
	for i := range int64(3) {
		for _, k := range []kind{orders, payments} {
			ev := event{fmt.Sprintf("%.1s-%d", k, i), i + 1, int64(len(k)) * (i + 1)}
			p := place{k, 2, i}
			value, _ := json.Marshal(ev)
			e.log = append(e.log, logged{p, customer, value})
			e.entries = append(e.entries, entry{p, customer, ev})
			a = a.with(k, ev)
		}
	}
	for _, bad := range []struct {
		logged
		flaw  flaw
		tries int
	}{
		{logged{place{orders, 2, 3}, customer, []byte("{")}, malformed, 1},
		{logged{place{orders, 2, 4}, customer, []byte(`{"id":"x","cents":-1}`)}, refused, tries},
		{logged{place{orders, 3, 0}, customer, []byte(`{"id":"y","cents":1}`)}, misplaced, 0},
	} {
		e.log = append(e.log, bad.logged)
		e.spoilt[bad.place] = bad.flaw
		e.dead = append(e.dead, dead{bad.place, "because", bad.tries})
	}
	e.produced = len(e.log)
	e.accounts[customer] = a
	e.answers[customer] = statement{Customer: customer, Due: a.due(), account: a}
	return e
}

func TestVerify(t *testing.T) {
	good := findings{Records: 9, Applied: 6, Spoilt: 3, Dead: 3}
	if f := verify(played()); !f.good() || !cmp.Equal(&good, f, cmp.AllowUnexported(findings{})) {
		t.Fatalf("a run that went well: got %+v, want %+v", f, good)
	}
	name := customersOf(group)[2][0]
	with := func(change func(*findings)) findings {
		f := good
		change(&f)
		return f
	}
	for what, tc := range map[string]struct {
		tamper func(*evidence)
		want   findings
		fine   bool // nothing is wrong with it
	}{
		"lost": {
			func(e *evidence) { e.entries = slices.Delete(e.entries, 2, 3) },
			with(func(f *findings) { f.Applied, f.Lost = 5, 1 }), false,
		},
		"twice": {
			func(e *evidence) { e.entries = append(e.entries, e.entries[2]) },
			with(func(f *findings) { f.Applied, f.Twice = 7, 1 }), false,
		},
		"out of order": {
			func(e *evidence) { e.entries[2], e.entries[4] = e.entries[4], e.entries[2] },
			with(func(f *findings) { f.Disordered = 1 }), false,
		},
		"topics in another order": {
			func(e *evidence) { e.entries[0], e.entries[1] = e.entries[1], e.entries[0] },
			good, true,
		},
		"another amount": {
			func(e *evidence) { e.entries[0].Cents++ },
			with(func(f *findings) { f.Foreign = 1 }), false,
		},
		"another customer": {
			func(e *evidence) { e.entries[0].customer = "mallory" },
			with(func(f *findings) { f.Foreign = 1 }), false,
		},
		"a spoilt one applied": {
			func(e *evidence) { e.entries = append(e.entries, entry{place{orders, 2, 4}, name, event{"x", 0, -1}}) },
			with(func(f *findings) { f.Applied, f.Foreign = 7, 1 }), false,
		},
		"an account is wrong": {
			func(e *evidence) { e.accounts[name] = e.accounts[name].with(orders, event{Cents: 1}) },
			with(func(f *findings) { f.Accounts = 1 }), false,
		},
		"an account of nobody": {
			func(e *evidence) { e.accounts["mallory"] = account{Orders: 1} },
			with(func(f *findings) { f.Accounts = 1 }), false,
		},
		"no account": {
			func(e *evidence) { clear(e.accounts) },
			with(func(f *findings) { f.Accounts = 1 }), false,
		},
		"an answer is wrong": {
			func(e *evidence) { e.answers[name] = statement{account: e.accounts[name]} },
			with(func(f *findings) { f.Answers = 1 }), false,
		},
		"a dead letter is missing": {
			func(e *evidence) { e.dead = e.dead[1:] },
			with(func(f *findings) { f.Dead, f.Undead = 2, 1 }), false,
		},
		"a dead letter of a sound record": {
			func(e *evidence) { e.dead = append(e.dead, dead{place{orders, 2, 0}, "because", 0}) },
			with(func(f *findings) { f.Sound = 1 }), false,
		},
		"a dead letter that was not tried": {
			func(e *evidence) { e.dead[1].tries = 0 },
			with(func(f *findings) { f.Dead, f.Sound = 2, 1 }), false,
		},
		"a dead letter without a reason": {
			func(e *evidence) { e.dead[1].why = "" },
			with(func(f *findings) { f.Dead, f.Sound = 2, 1 }), false,
		},
		"a dead letter twice": {
			func(e *evidence) { e.dead = append(e.dead, e.dead[0]) },
			with(func(f *findings) { f.Again = 1 }), true,
		},
		"the log has lost its end": {
			func(e *evidence) { e.produced++ },
			good, false,
		},
		"the log is in another order than produced": {
			func(e *evidence) { e.log[0].value, e.log[2].value = e.log[2].value, e.log[0].value },
			with(func(f *findings) { f.Foreign, f.Accounts, f.Answers = 2, 0, 0 }), false,
		},
		"it was applied in that order, too": {
			func(e *evidence) {
				e.log[0].value, e.log[2].value = e.log[2].value, e.log[0].value
				e.entries[0].event, e.entries[2].event = e.entries[2].event, e.entries[0].event
			},
			good, false,
		},
		"a record is bad that nobody spoilt": {
			func(e *evidence) { delete(e.spoilt, place{orders, 2, 3}); e.dead = e.dead[1:] },
			with(func(f *findings) { f.Spoilt, f.Dead = 2, 2 }), false,
		},
		"lag":            {func(e *evidence) { e.lag.Lag = 1 }, good, false},
		"lag not known":  {func(e *evidence) { e.lag.Known = false }, good, false},
		"an old answer":  {func(e *evidence) { e.stale = 1 }, good, false},
		"nobody answers": {func(e *evidence) { clear(e.answers) }, with(func(f *findings) { f.Answers = 1 }), false},
	} {
		t.Run(what, func(t *testing.T) {
			e := played()
			tc.tamper(&e)
			f := verify(e)
			if f.good() != tc.fine {
				t.Errorf("good: got %t, want %t: %v", f.good(), tc.fine, f.faults)
			}
			f.faults = nil
			if diff := cmp.Diff(&tc.want, f, cmp.AllowUnexported(findings{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	for f, r := range map[flaw]logged{
		sound:     {place{orders, 2, 0}, customersOf(group)[2][0], []byte(`{"id":"x","cents":1}`)},
		refused:   {place{orders, 2, 0}, customersOf(group)[2][0], fmt.Appendf(nil, `{"id":"x","cents":%d}`, mostCents+1)},
		malformed: {place{orders, 2, 0}, customersOf(group)[2][0], nil},
		misplaced: {place{orders, 1, 0}, customersOf(group)[2][0], []byte(`{"id":"x","cents":1}`)},
	} {
		if _, got := judge(group, r); got != f {
			t.Errorf("%+v: got %q, want %q", r, got, f)
		}
	}
}

func TestShort(t *testing.T) {
	for text, want := range map[string]string{"": "", "überall": "überall", "überalls": "überal…"} {
		if got := short(text, 7); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
