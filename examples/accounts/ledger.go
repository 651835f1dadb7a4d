package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

// ledger is the service behind HTTP and gRPC: what the owner of an account does.
type ledger struct {
	vault  vault
	writer *writer.Writer[change, receipt]
	books  sync.Map // *book by *owner.Tenure, while it is served
}

func newLedger(v vault) *ledger {
	l := &ledger{vault: v}
	l.writer = writer.New(l.open, writer.Config{})
	return l
}

// serve is the node's handler, once for each tenure.
func (l *ledger) serve(ctx context.Context, t *owner.Tenure) error {
	defer l.books.Delete(t)
	return l.writer.Serve(ctx, t)
}

// open begins a tenure. Accounts are read when they are first asked for: loading all of the shard here would make each
// hand-off longer by as much.
func (l *ledger) open(ctx context.Context, t *owner.Tenure) (writer.Apply[change, receipt], error) {
	if err := l.vault.seal(ctx, t.Token()); err != nil {
		return nil, err
	}
	b := newBook()
	l.books.Store(t, b)
	return func(ctx context.Context, batch []*writer.Cmd[change, receipt]) error {
		return l.apply(ctx, t.Token(), b, batch)
	}, nil
}

// apply is for the writer.
func (l *ledger) apply(ctx context.Context, tok shard.Token, b *book, batch []*writer.Cmd[change, receipt]) error {
	changes := make([]change, len(batch))
	for i, c := range batch {
		changes[i] = c.Value
	}
	verdicts, err := l.settle(ctx, tok, b, changes)
	if err != nil {
		return err
	}
	for i, c := range batch {
		if v := verdicts[i]; v.err != nil {
			c.Reject(v.err)
		} else {
			c.Reply(v.receipt)
		}
	}
	return nil
}

// verdict is what is said to one change of a batch.
type verdict struct {
	receipt
	err error // why it was refused
}

// settle applies changes in order, all or none: one read, one decision after another in memory, one write. So an account that is
// changed a hundred times in a batch is written once. Where a value does not fit into memory, or is not the owner's alone to
// change, write one statement for each command instead, as the documentation of package writer shows.
//
// An error goes out as it is: it says whether the batch may be tried again, or ends the tenure, and the book with it.
func (l *ledger) settle(ctx context.Context, tok shard.Token, b *book, changes []change) ([]verdict, error) {
	applied, err := l.look(ctx, b, changes)
	if err != nil {
		return nil, writer.NotApplied(err) // only read so far
	}
	d := draft{book: b, applied: applied, balances: make(map[string]int64)}
	verdicts := make([]verdict, len(changes))
	for i, c := range changes {
		verdicts[i].receipt, verdicts[i].err = d.decide(c)
	}
	if len(d.entries) == 0 {
		return verdicts, nil
	}
	if err := l.vault.write(ctx, tok, d.balances, d.entries); err != nil {
		return nil, err
	}
	b.turn(d.balances)
	return verdicts, nil
}

// look finds which of the changes were applied before, and teaches the book the accounts that it needs.
func (l *ledger) look(ctx context.Context, b *book, changes []change) (map[operation]entry, error) {
	ops := make([]operation, len(changes))
	missing := make(map[string]bool)
	for i, c := range changes {
		ops[i] = c.operation
		if _, known := b.balance(c.account); !known {
			missing[c.account] = true
		}
	}
	balances, applied, err := l.vault.read(ctx, slices.Sorted(maps.Keys(missing)), ops)
	if err != nil {
		return nil, err
	}
	b.learn(balances)
	return applied, nil
}

// draft is a batch decided upon and not written.
type draft struct {
	book     *book
	applied  map[operation]entry // before this batch or in it
	balances map[string]int64    // that are different after it
	entries  []entry             // to be written
}

func (d *draft) decide(c change) (receipt, error) {
	if e, ok := d.applied[c.operation]; ok {
		if e.amount != c.amount {
			return receipt{}, errReused
		}
		return receipt{e.balance, true}, nil
	}
	balance, ok := d.balances[c.account]
	if !ok {
		balance, _ = d.book.balance(c.account) // 0 if there is no such account yet
	}
	// A refused change is not remembered: the same operation may succeed later.
	switch {
	case balance+c.amount < 0:
		return receipt{}, errPoor
	case balance+c.amount > most: // both are at most that, so the sum does not overflow
		return receipt{}, errRich
	}
	balance += c.amount
	e := entry{c.operation, c.amount, balance}
	d.balances[c.account] = balance
	d.applied[c.operation] = e
	d.entries = append(d.entries, e)
	return receipt{balance: balance}, nil
}

// balance is what t's owner has of an account: the effect of every change that was acknowledged before.
//
// From memory, so the process may have been stopped on the way while another took over. Hence the look at the tenure
// after the fact: by the clock, which is all that memory can go by, nobody else owned the account until then. Where an old
// balance would do harm, read it inside a guarded transaction.
func (l *ledger) balance(ctx context.Context, t *owner.Tenure, account string) (int64, error) {
	b, err := l.book(t)
	if err != nil {
		return 0, err
	}
	balance, known := b.balance(account)
	if !known {
		found, _, err := l.vault.read(ctx, []string{account}, nil)
		if err != nil {
			return 0, &unreadError{err}
		}
		b.learn(found)
		balance, known = b.balance(account)
	}
	switch err := t.Err(); {
	case err != nil:
		return 0, &unreadError{err}
	case !known:
		return 0, errUnknown
	}
	return balance, nil
}

func (l *ledger) book(t *owner.Tenure) (*book, error) {
	if b, ok := l.books.Load(t); ok {
		return b.(*book), nil
	}
	return nil, &unreadError{errors.New("the tenure's handler has returned")}
}

// unreadError: a balance could not be read. Whatever the reason, nothing was done, so it may be tried again.
type unreadError struct{ err error }

func (e *unreadError) Error() string        { return "accounts: read a balance: " + e.err.Error() }
func (e *unreadError) Unwrap() error        { return e.err }
func (e *unreadError) Outcome() cas.Outcome { return cas.NotApplied }
