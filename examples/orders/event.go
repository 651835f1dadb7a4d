package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// kind is one of the two topics.
type kind string

const (
	orders   kind = "orders"
	payments kind = "payments"
)

// event is what a record says: its key is the customer, its value is this as JSON.
type event struct {
	ID     string `json:"id"`
	Number int64  `json:"number"` // of the customer's events of the kind, from 1
	Cents  int64  `json:"cents"`
}

var errNoID = errors.New("it has no id")

// parseEvent says whether a value can be understood. Whether the amount is one that may be booked the database decides.
func parseEvent(value []byte) (event, error) {
	var e event
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	err := d.Decode(&e)
	switch {
	case err != nil:
	case d.More():
		err = errors.New("something follows it")
	case e.ID == "":
		err = errNoID
	default:
		return e, nil
	}
	return event{}, fmt.Errorf("orders: not an event: %w", err)
}

// mostCents is the highest amount of an event; the least is 1.
const mostCents = 100_000_000

// account is what a customer has ordered and paid. The two topics change different fields, so it does not matter which of two
// records of different topics comes first.
type account struct {
	Ordered   int64  `json:"ordered"` // in cents
	Paid      int64  `json:"paid"`
	Orders    int64  `json:"orders"` // how many
	Payments  int64  `json:"payments"`
	LastOrder string `json:"last_order"`
}

// due is what the customer owes, below zero what it has ahead.
func (a account) due() int64 { return a.Ordered - a.Paid }

// with is the account after one more event.
func (a account) with(k kind, e event) account {
	if k == orders {
		a.Ordered, a.Orders, a.LastOrder = a.Ordered+e.Cents, a.Orders+1, e.ID
	} else {
		a.Paid, a.Payments = a.Paid+e.Cents, a.Payments+1
	}
	return a
}
