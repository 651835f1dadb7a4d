package main

import (
	"fmt"
	"io"

	"github.com/tenure-go/tenure/examples/internal/provider"
)

// audit compares what was asked for with what the provider and the books have. It believes nobody's reports.
type audit struct {
	Payments     int
	NotCharged   int
	ChargedTwice int // or more often
	NotBooked    int
	BookedTwice  int // or more often
	Different    int // once each, but another account, amount or charge
	Unasked      int // charges and entries that belong to no payment
	Taken        int64
	Due          int64
}

func examine(payments []Payment, charges func(id string) []provider.Charge, made int, entries map[string][]entry) audit {
	a := audit{Payments: len(payments)}
	known := 0
	for _, p := range payments {
		a.Due += p.Amount
		c, e := charges(p.ID), entries[p.ID]
		known += len(c)
		for _, one := range c {
			a.Taken += one.Amount
		}
		switch {
		case len(c) == 0:
			a.NotCharged++
		case len(c) > 1:
			a.ChargedTwice++
		}
		switch {
		case len(e) == 0:
			a.NotBooked++
		case len(e) > 1:
			a.BookedTwice++
		}
		if len(c) == 1 && len(e) == 1 && (c[0].Payment != p || e[0].Payment != p || e[0].charge != c[0].Charge) {
			a.Different++
		}
		delete(entries, p.ID)
	}
	a.Unasked = made - known + len(entries)
	return a
}

func (a audit) good() bool {
	return a == audit{Payments: a.Payments, Taken: a.Due, Due: a.Due}
}

func (a audit) print(w io.Writer) {
	fmt.Fprintf(w, "charged   %d once, %d more than once, %d not at all\n", a.Payments-a.ChargedTwice-a.NotCharged, a.ChargedTwice, a.NotCharged)
	fmt.Fprintf(w, "booked    %d once, %d more than once, %d not at all\n", a.Payments-a.BookedTwice-a.NotBooked, a.BookedTwice, a.NotBooked)
	if a.Different+a.Unasked > 0 {
		fmt.Fprintf(w, "          %d charged or booked differently from what was asked, %d not asked for\n", a.Different, a.Unasked)
	}
	fmt.Fprintf(w, "money     %s due, %s taken\n", cents(a.Due), cents(a.Taken))
}

func cents(n int64) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }
