package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// counter is a provider that honours keys, and counts.
type counter struct {
	keys  map[string]bool
	asked int
}

func (c *counter) charge(_ context.Context, key string, p Payment) (string, error) {
	c.asked++
	c.keys[key] = true
	return "ch-" + key, nil
}

func open(t *testing.T) *books {
	t.Helper()
	b, err := openBooks(filepath.Join(t.TempDir(), "books.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.close() })
	if err := b.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func token(t *testing.T, b *books, epoch shard.Epoch) shard.Token {
	t.Helper()
	tok := shard.Token{Group: "payments", GroupID: "g", Shard: 3, Epoch: epoch}
	if err := b.fences.Seal(t.Context(), tok); err != nil {
		t.Fatal(err)
	}
	return tok
}

// crash is what ends a process here.
type crash struct{}

// TestPayOnceOverACrash: an owner crashes at each moment of a payment, and the next one makes it as if nothing had been.
func TestPayOnceOverACrash(t *testing.T) {
	rent := Payment{ID: "rent", Account: "alice", Amount: 90000}
	for _, at := range []moment{charging, charged, booked, recorded} {
		t.Run(string(at), func(t *testing.T) {
			b := open(t)
			engine, err := idem.New(b.store, idem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			third := &counter{keys: make(map[string]bool)}
			dies := at
			die := func(m moment) {
				if m == dies {
					panic(crash{})
				}
			}
			payer := &Payer{
				Engine: engine, Book: b.book,
				At: func(_ context.Context, m moment, _ Payment) { die(m) },
				Charge: func(ctx context.Context, key string, p Payment) (string, error) {
					id, err := third.charge(ctx, key, p)
					die(charged)
					return id, err
				},
			}
			w := &worker{books: b, payer: payer, logger: slog.New(slog.DiscardHandler)}
			func() {
				defer func() {
					if _, ok := recover().(crash); !ok {
						t.Error("no crash")
					}
				}()
				_ = w.work(t.Context(), token(t, b, 7), rent)
			}()
			dies = ""
			if err := w.work(t.Context(), token(t, b, 8), rent); err != nil {
				t.Fatal(err)
			}
			entries, err := b.entries(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(third.keys) != 1 || len(entries["rent"]) != 1 {
				t.Errorf("charged under %d keys, booked %d times; want 1 and 1", len(third.keys), len(entries["rent"]))
			}
			if asked := third.asked; asked > 1 && at != charged {
				t.Errorf("the provider was asked %d times, want 1", asked)
			}
		})
	}
}

// TestPayOnlyAsOwner: what a replaced owner has charged already, it can no longer book.
func TestPayOnlyAsOwner(t *testing.T) {
	b := open(t)
	engine, err := idem.New(b.store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tok := token(t, b, 7)
	payer := &Payer{
		Engine: engine, Book: b.book, At: func(context.Context, moment, Payment) {},
		Charge: func(context.Context, string, Payment) (string, error) {
			token(t, b, 8) // the next owner has come
			return "ch-1", nil
		},
	}
	w := &worker{books: b, payer: payer, logger: slog.New(slog.DiscardHandler)}
	err = w.work(t.Context(), tok, Payment{ID: "rent", Account: "alice", Amount: 1})
	if _, fenced := errors.AsType[*fence.FencedError](err); !fenced || !replaced(err) {
		t.Errorf("got %v, want a *fence.FencedError", err)
	}
	if entries, err := b.entries(t.Context()); err != nil || len(entries) > 0 {
		t.Errorf("booked %v, %v, want nothing", entries, err)
	}
}

// TestDeclined: a payment that the provider declines is not tried again, and leaves the queue.
func TestDeclined(t *testing.T) {
	b := open(t)
	engine, err := idem.New(b.store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	payer := &Payer{
		Engine: engine, At: func(context.Context, moment, Payment) {},
		Book: func(context.Context, *sql.Tx, Payment, string) error { return errors.New("booked") },
		Charge: func(context.Context, string, Payment) (string, error) {
			asked++
			return "", &provider.DeclinedError{Status: 402, Reason: "no money"}
		},
	}
	w := &worker{books: b, payer: payer, logger: slog.New(slog.DiscardHandler)}
	g := shard.Group{Name: "payments", Shards: 8}
	rent := Payment{ID: "rent", Account: "alice", Amount: 1}
	for epoch := range shard.Epoch(2) {
		if err := b.submit(t.Context(), g, []Payment{rent}); err != nil {
			t.Fatal(err)
		}
		due, err := b.due(t.Context(), g.Of("alice"), 10)
		if err != nil || len(due) != 1 || due[0] != rent {
			t.Fatalf("due: got %v, %v, want %v", due, err, rent)
		}
		if err := w.work(t.Context(), token(t, b, 7+epoch), rent); err != nil {
			t.Fatal(err)
		}
		if left, err := b.left(t.Context()); err != nil || left != 0 {
			t.Errorf("%d jobs left, %v, want none", left, err)
		}
	}
	if asked != 1 {
		t.Errorf("the provider was asked %d times, want once", asked)
	}
}
