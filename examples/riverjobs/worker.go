package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
)

// PayArgs is a job of River's: a payment.
type PayArgs struct{ provider.Payment }

// Kind is River's name for such jobs.
func (PayArgs) Kind() string { return "pay" }

// Receipt is what becomes of a payment.
type Receipt struct {
	Charge string `json:"charge"`
}

// PayWorker makes payments, each once.
//
// River runs a job at least once: again if the worker was killed, if it returned an error after its work was done, or if it was
// taken for stuck (RescueStuckJobsAfter) and was not. And whoever inserts jobs may insert one twice, when the reply to the first
// insert was lost.
type PayWorker struct {
	river.WorkerDefaults[PayArgs]
	Engine *idem.Engine // over a pgxidem.Store in River's own database
	Charge func(ctx context.Context, key string, p provider.Payment) (string, error)
}

// Work is River's.
func (w *PayWorker) Work(ctx context.Context, job *river.Job[PayArgs]) error {
	p := job.Args.Payment
	print, err := json.Marshal(p)
	if err != nil {
		return err
	}
	// The key is what the operation is, not the job that asks for it: of two jobs for one payment the second gets the first
	// one's result. Where each job is an operation of its own, its ID is the key: fmt.Sprint(job.ID).
	q := idem.Request{Scope: "payments", Key: p.ID, Fingerprint: idem.Fingerprint(print)}
	_, err = idem.Do(ctx, w.Engine, q, func(ctx context.Context, op *idem.Op) (Receipt, error) {
		charge, err := idem.Step(ctx, op, "charge", func(ctx context.Context, key string) (string, error) {
			charge, err := w.Charge(ctx, key, p)
			if _, ok := errors.AsType[*provider.DeclinedError](err); ok {
				err = idem.Final(err)
			}
			return charge, err
		})
		if err != nil {
			return Receipt{}, err
		}
		return pgxidem.StepTx(ctx, op, "book", func(tx pgx.Tx) (Receipt, error) { return w.book(ctx, tx, job, charge) }, pgxidem.Last)
	})
	if busy, ok := errors.AsType[*idem.InProgressError](err); ok {
		// Another worker is at it, or was killed at it and has not been heard of since. A snooze counts as no attempt.
		return river.JobSnooze(min(busy.RetryAfter, time.Second))
	}
	if _, ok := errors.AsType[*idem.FailedError](err); ok {
		return river.JobCancel(err) // for good: River shall not try again
	}
	return err
}

// book is one commit with the record of the operation and its result. The job is completed in it as well, which saves a later
// try from finding that there is nothing left to do.
func (w *PayWorker) book(ctx context.Context, tx pgx.Tx, job *river.Job[PayArgs], charge string) (Receipt, error) {
	p := job.Args.Payment
	_, err := tx.Exec(ctx, "INSERT INTO entry (payment, charge, account, amount) VALUES ($1, $2, $3, $4)", p.ID, charge, p.Account, p.Amount)
	if err != nil {
		return Receipt{}, err
	}
	_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
	return Receipt{charge}, err
}

// NextRetry is soon, because this provider fails often and recovers at once. River's own is a second later, then 16, then 81.
func (*PayWorker) NextRetry(*river.Job[PayArgs]) time.Time {
	return time.Now().Add(50 * time.Millisecond)
}
