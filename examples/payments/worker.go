package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// worker works off the queue, on whichever node owns the shard.
type worker struct {
	books  *books
	payer  *Payer
	noIdem bool
	logger *slog.Logger
}

const poll = 20 * time.Millisecond // of an empty queue; a service with less haste would take a second

// serve is an owner.Handler.
func (w *worker) serve(ctx context.Context, t *owner.Tenure) error {
	if err := w.books.fences.Seal(ctx, t.Token()); err != nil {
		return err
	}
	t.Ready()
	for pause(ctx, poll) {
		due, err := w.books.due(ctx, t.Token().Shard, 16)
		if err != nil {
			return err
		}
		for _, p := range due {
			if ctx.Err() != nil {
				return nil // handed over, or lost: the next owner goes on with this one
			}
			// Under the tenure's context, so that a hand-off waits for the payment that was begun.
			err := w.work(t.Context(), t.Token(), p)
			if replaced(err) {
				return err
			}
			if err != nil {
				w.logger.Warn("the payment is tried again later", "payment", p.ID, "err", err)
			}
		}
	}
	return nil
}

// replaced reports whether err says that the shard is another's.
func replaced(err error) bool {
	_, fenced := errors.AsType[*fence.FencedError](err)
	_, superseded := errors.AsType[*idem.SupersededError](err)
	return fenced || superseded || errors.Is(err, fence.ErrNotSealed)
}

// work makes one payment and takes it from the queue.
func (w *worker) work(ctx context.Context, tok shard.Token, p Payment) error {
	pay := w.payer.Pay
	if w.noIdem {
		pay = w.payCarelessly
	}
	receipt, err := pay(ctx, tok, p)
	if failed, ok := errors.AsType[*idem.FailedError](err); ok {
		w.logger.Error("the payment has failed for good", "payment", p.ID, "err", failed)
		return w.books.remove(ctx, p)
	}
	if err != nil {
		return err
	}
	w.payer.At(ctx, recorded, p)
	w.logger.Debug("paid", "payment", p.ID, "charge", receipt.Charge)
	return w.books.remove(ctx, p)
}

// payCarelessly is what one writes without package idem: under the fence, so that one owner works at a time, and still wrong.
func (w *worker) payCarelessly(ctx context.Context, tok shard.Token, p Payment) (r Receipt, err error) {
	w.payer.At(ctx, charging, p)
	if r.Charge, err = w.payer.Charge(ctx, "", p); err != nil {
		return r, err
	}
	err = w.books.fences.Tx(ctx, tok, func(tx *sql.Tx) error { return w.books.book(ctx, tx, p, r.Charge) })
	if err == nil {
		w.payer.At(ctx, booked, p)
	}
	return r, err
}

// pause waits, and reports whether it was not for ctx's end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
