package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/examples/internal/schema"
)

// play queues payments, kills workers while they are at them, and says what came of it.
func play(ctx context.Context, o options, out io.Writer) (status int, err error) {
	place, drop, err := schema.Create(ctx, o.database, fmt.Sprintf("tenure_riverjobs_%d", os.Getpid()))
	if err != nil {
		return exitWrong, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	pool, err := pgxpool.New(ctx, place)
	if err != nil {
		return exitWrong, err
	}
	defer pool.Close()
	if err := install(ctx, pool); err != nil {
		return exitWrong, err
	}
	charges := make(chan provider.Charge, o.payments)
	third := provider.New(provider.Config{Seed: o.seed, Faults: 0.1, Slow: 30 * time.Millisecond, Charged: func(c provider.Charge) {
		select {
		case charges <- c:
		default: // nobody listens any more; it is a hint of when to kill
		}
	}})
	address, hangUp, err := third.Listen()
	if err != nil {
		return exitWrong, err
	}
	defer func() { err = errors.Join(err, hangUp()) }()

	b := &boss{
		out: out, pool: pool, third: third, charges: charges, fleet: child.New[string](roleVariable),
		role: role{Database: place, Provider: address, Verbose: o.verbose},
	}
	defer b.fleet.Stop()
	for range 2 {
		if err := b.start(); err != nil {
			return exitWrong, err
		}
	}
	payments := invent(o)
	if err := b.run(ctx, payments, o.kills); err != nil {
		return exitWrong, err
	}
	b.fleet.Stop()
	return b.verdict(ctx, payments)
}

func invent(o options) []provider.Payment {
	rng := rand.New(rand.NewPCG(o.seed, 3))
	payments := make([]provider.Payment, o.payments)
	for i := range payments {
		payments[i] = provider.Payment{ID: fmt.Sprintf("pay-%04d", i+1), Account: fmt.Sprint("customer-", rng.IntN(200)), Amount: 100 + rng.Int64N(10000)}
	}
	return payments
}
