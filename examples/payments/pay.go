package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem"
	"github.com/tenure-go/tenure/shard"
)

// Payment is a job of the queue, and a request to the provider.
type Payment = provider.Payment

// Receipt is what becomes of a payment.
type Receipt struct {
	Charge string `json:"charge"`
}

// Payer makes payments, each once: the customer is charged once, and the charge is booked once, however often Pay is called for
// it, on however many nodes, and wherever those were killed.
type Payer struct {
	Engine *idem.Engine // over a sqlidem.Store with a fence
	Charge func(ctx context.Context, key string, p Payment) (string, error)
	Book   func(ctx context.Context, tx *sql.Tx, p Payment, charge string) error

	// At is told how far a payment has come. It is for this example, which kills there; leave it out of a copy.
	At func(ctx context.Context, m moment, p Payment)
}

// Pay makes p under the token of the tenure that serves p's account.
func (y *Payer) Pay(ctx context.Context, tok shard.Token, p Payment) (Receipt, error) {
	return idem.Do(ctx, y.Engine, request(tok, p), func(ctx context.Context, op *idem.Op) (Receipt, error) {
		// The provider is out of reach for transactions and fences. A try that ends between its charge and our
		// record of it leads to the same request under the same key, by which the provider knows it.
		charge, err := idem.Step(ctx, op, "charge", func(ctx context.Context, key string) (string, error) {
			y.At(ctx, charging, p)
			charge, err := y.Charge(ctx, key, p)
			if _, ok := errors.AsType[*provider.DeclinedError](err); ok {
				err = idem.Final(err) // asking again won't help: the payment has failed, and later tries are told so
			}
			return charge, err
		})
		if err != nil {
			return Receipt{}, err
		}
		// Entry, record of the step and fence are one commit: all of it or nothing. With sqlidem.Last the operation would
		// end with it as well, which saves a commit. Here it does not, as if there were more to do.
		r, err := sqlidem.StepTx(ctx, op, "book", func(tx *sql.Tx) (Receipt, error) {
			return Receipt{charge}, y.Book(ctx, tx, p, charge)
		})
		if err != nil {
			return Receipt{}, err
		}
		y.At(ctx, booked, p)
		return r, nil
	})
}

// request names the payment. A payment that comes again under the same id and for another amount is refused.
func request(tok shard.Token, p Payment) idem.Request {
	print, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and a number can always be encoded
	}
	return idem.Request{Scope: "payments", Key: p.ID, Fingerprint: idem.Fingerprint(print), Token: tok}
}
