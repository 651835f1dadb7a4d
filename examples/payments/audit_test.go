package main

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/examples/internal/provider"
)

// TestAuditSeesWhatIsWrong: each thing that can go wrong is found, and told from the others.
func TestAuditSeesWhatIsWrong(t *testing.T) {
	a, b := Payment{ID: "a", Account: "alice", Amount: 100}, Payment{ID: "b", Account: "bob", Amount: 250}
	charge := func(p Payment, id string) provider.Charge { return provider.Charge{Payment: p, Charge: id} }
	book := func(p Payment, id string) entry { return entry{p, id} }
	more := a
	more.Amount = 101
	for _, c := range []struct {
		name    string
		charges []provider.Charge
		entries []entry
		want    audit
	}{
		{"all is well", []provider.Charge{charge(a, "1"), charge(b, "2")}, []entry{book(a, "1"), book(b, "2")}, audit{Taken: 350}},
		{"charged twice", []provider.Charge{charge(a, "1"), charge(b, "2"), charge(b, "3")}, []entry{book(a, "1"), book(b, "2")}, audit{ChargedTwice: 1, Taken: 600}},
		{"not charged", []provider.Charge{charge(a, "1")}, []entry{book(a, "1"), book(b, "2")}, audit{NotCharged: 1, Taken: 100}},
		{"booked twice", []provider.Charge{charge(a, "1"), charge(b, "2")}, []entry{book(a, "1"), book(a, "1"), book(b, "2")}, audit{BookedTwice: 1, Taken: 350}},
		{"not booked", []provider.Charge{charge(a, "1"), charge(b, "2")}, []entry{book(b, "2")}, audit{NotBooked: 1, Taken: 350}},
		{"another charge booked", []provider.Charge{charge(a, "1"), charge(b, "2")}, []entry{book(a, "2"), book(b, "2")}, audit{Different: 1, Taken: 350}},
		{"another amount charged", []provider.Charge{charge(more, "1"), charge(b, "2")}, []entry{book(a, "1"), book(b, "2")}, audit{Different: 1, Taken: 351}},
		{"not asked for", []provider.Charge{charge(a, "1"), charge(b, "2"), charge(Payment{ID: "x"}, "3")}, []entry{book(a, "1"), book(b, "2"), book(Payment{ID: "y"}, "4")}, audit{Unasked: 2, Taken: 350}},
	} {
		t.Run(c.name, func(t *testing.T) {
			charges := make(map[string][]provider.Charge)
			for _, one := range c.charges {
				charges[one.ID] = append(charges[one.ID], one)
			}
			entries := make(map[string][]entry)
			for _, one := range c.entries {
				entries[one.ID] = append(entries[one.ID], one)
			}
			c.want.Payments, c.want.Due = 2, 350
			got := examine([]Payment{a, b}, func(id string) []provider.Charge { return charges[id] }, len(c.charges), entries)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if good := c.name == "all is well"; got.good() != good {
				t.Errorf("good: got %t, want %t", got.good(), good)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	good := audit{Payments: 3, Due: 5, Taken: 5}
	bad := audit{Payments: 3, Due: 5, Taken: 7, ChargedTwice: 1}
	all := []phase{beforeCharge, chargedOnly, bookedOnly, finishing}
	hit := aim{phases: all, landed: [phases]int{1, 2, 3, 4}}
	for _, c := range []struct {
		name   string
		end    ending
		noIdem bool
		want   int
	}{
		{"good", ending{audit: good, aim: hit}, false, exitGood},
		{"bad", ending{audit: bad, aim: hit}, false, exitWrong},
		{"a phase without a kill", ending{audit: good, aim: aim{phases: all, landed: [phases]int{1, 2, 3, 0}}}, false, exitControl},
		{"bad, and a phase without a kill", ending{audit: bad, aim: aim{phases: all}}, false, exitWrong},
		{"the control does harm", ending{audit: bad, aim: hit}, true, exitWrong},
		{"the control does none", ending{audit: good, aim: hit}, true, exitControl},
	} {
		if got := c.end.verdict(io.Discard, options{noIdem: c.noIdem}); got != c.want {
			t.Errorf("%s: exit status %d, want %d", c.name, got, c.want)
		}
	}
	var out strings.Builder
	(&ending{audit: good, aim: hit}).verdict(&out, options{})
	want := "kills     10, 1 before the charge, 2 between charge and booking, 3 after booking, 4 while finishing\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("got:\n%swant in it:\n%s", out.String(), want)
	}
}

func TestPhaseOfState(t *testing.T) {
	for _, c := range []struct {
		state state
		want  phase
		ok    bool
	}{
		{state{queued: true}, beforeCharge, true},
		{state{queued: true, charged: true}, chargedOnly, true},
		{state{queued: true, charged: true, booked: true}, bookedOnly, true},
		{state{queued: true, charged: true, booked: true, recorded: true}, finishing, true},
		{state{charged: true, booked: true, recorded: true}, 0, false},
	} {
		if got, ok := c.state.phase(); got != c.want || ok != c.ok {
			t.Errorf("%+v: got %v, %t, want %v, %t", c.state, got, ok, c.want, c.ok)
		}
	}
}

// TestAimGoesWhereKillsAreFew: if each kill lands where it was meant to, no phase is ever two ahead of another.
func TestAimGoesWhereKillsAreFew(t *testing.T) {
	a := aim{rng: rand.New(rand.NewPCG(1, 1)), phases: []phase{beforeCharge, chargedOnly, bookedOnly, finishing}}
	for range 100 {
		least, most := a.landed[0], a.landed[0]
		for _, n := range a.landed {
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 || a.open() != (least == 0) {
			t.Fatalf("%v: open %t", a.landed, a.open())
		}
		a.landed[a.next()]++
	}
	if got := a.kills(); got != 100 {
		t.Errorf("%d kills, want 100", got)
	}
}
