package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/examples/internal/embedded"
	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/examples/internal/schema"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/shard"
)

const (
	slow   = 15 * time.Millisecond // the provider at most, before and after it charges
	linger = 15 * time.Millisecond // the nodes at most, at each moment
	faults = 0.15                  // of the requests
)

// play does all of it and cleans up.
func play(ctx context.Context, o options, out io.Writer) (_ *ending, err error) {
	var cleanups []func() error
	defer func() {
		for i := len(cleanups) - 1; i >= 0; i-- {
			err = errors.Join(err, cleanups[i]())
		}
	}()
	dir, err := os.MkdirTemp("", "tenure-payments")
	if err != nil {
		return nil, err
	}
	cleanups = append(cleanups, func() error { return os.RemoveAll(dir) })
	endpoint := o.etcd
	if endpoint == "" {
		e, stop, err := embedded.Start(ctx, dir)
		if err != nil {
			return nil, err
		}
		cleanups = append(cleanups, func() error { stop(); return nil })
		endpoint = e
	} else if err := reach(ctx, endpoint, 5*time.Second); err != nil {
		return nil, err
	}
	source := filepath.Join(dir, "books.db")
	if o.database != "" {
		place, drop, err := schema.Create(ctx, o.database, fmt.Sprintf("tenure_payments_%d", os.Getpid()))
		if err != nil {
			return nil, err
		}
		cleanups = append(cleanups, drop)
		source = place
	}
	b, err := openBooks(source)
	if err != nil {
		return nil, err
	}
	cleanups = append(cleanups, b.close)
	if err := b.install(ctx); err != nil {
		return nil, err
	}
	engine, err := idem.New(b.store, idem.Config{})
	if err != nil {
		return nil, err
	}
	charges := make(chan report, o.payments)
	third := provider.New(provider.Config{Seed: o.seed, Faults: faults, Slow: slow, Charged: func(c provider.Charge) {
		select {
		case charges <- report{Node: c.By, Payment: c.ID, At: charged}:
		default: // nobody listens any more; it is a hint of when to kill
		}
	}})
	address, hangUp, err := third.Listen()
	if err != nil {
		return nil, err
	}
	cleanups = append(cleanups, hangUp)

	w := &witness{
		out: out, began: time.Now(), books: b, engine: engine, third: third, charges: charges,
		fleet: child.New[report](roleVariable),
		aim:   aim{rng: rand.New(rand.NewPCG(o.seed, 2)), phases: []phase{beforeCharge, chargedOnly, bookedOnly, finishing}},
		role: role{
			Etcd: endpoint, Database: source, Provider: address, NoIdem: o.noIdem, Verbose: o.verbose, Linger: linger,
			Group: shard.Group{Name: fmt.Sprintf("payments-%d", os.Getpid()), Shards: o.shards},
		},
	}
	if o.noIdem {
		w.aim.phases = w.aim.phases[:finishing] // what is not recorded can't be finished
	}
	cleanups = append(cleanups, func() error { w.fleet.Stop(); return nil })
	for range o.nodes {
		if err := w.start(); err != nil {
			return nil, err
		}
	}
	w.say("%d payments for %d nodes, seed %d", o.payments, o.nodes, o.seed)
	payments := invent(o)
	if err := w.run(ctx, payments, o.kills); err != nil {
		return nil, err
	}
	w.fleet.Stop()
	entries, err := b.entries(ctx)
	if err != nil {
		return nil, err
	}
	return &ending{
		audit: examine(payments, third.Charges, third.Total(), entries),
		aim:   w.aim, figures: third.Figures(), took: time.Since(w.began),
	}, nil
}

// reach asks the etcd there for anything. The nodes would wait for it, and nobody know for what.
func reach(ctx context.Context, endpoint string, patience time.Duration) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", endpoint, err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := client.Get(ctx, "/tenure"); err != nil {
		return fmt.Errorf("etcd at %s does not answer (-etcd): %w", endpoint, err)
	}
	return nil
}

// invent makes up payments.
func invent(o options) []Payment {
	rng := rand.New(rand.NewPCG(o.seed, 3))
	payments := make([]Payment, o.payments)
	for i := range payments {
		payments[i] = Payment{
			ID: fmt.Sprintf("pay-%04d", i+1), Account: fmt.Sprint("customer-", rng.IntN(200)), Amount: 100 + rng.Int64N(10000),
		}
	}
	return payments
}

// ending is what a run has come to.
type ending struct {
	audit   audit
	aim     aim
	figures provider.Figures
	took    time.Duration
}

// verdict prints it, and returns the exit status.
func (e *ending) verdict(out io.Writer, o options) int {
	fmt.Fprintln(out)
	e.audit.print(out)
	fmt.Fprintf(out, "kills     %d", e.aim.kills())
	for _, p := range e.aim.phases {
		fmt.Fprintf(out, ", %d %s", e.aim.landed[p], p)
	}
	if e.aim.missed > 0 {
		fmt.Fprintf(out, ", %d elsewhere", e.aim.missed)
	}
	f := e.figures
	fmt.Fprintf(out, "\nprovider  %d requests: %d came again and were known by their key; %d replies lost on the way, %d held back until the client gave up; %d cut off and %d refused before the charge\n\n",
		f.Requests, f.Known, f.Lost, f.Hung, f.Cut, f.Refused)
	switch {
	case e.audit.good() && o.noIdem:
		fmt.Fprintf(out, "Without package idem nothing went wrong: then the run with it proves nothing (seed %d).\n", o.seed)
		return exitControl
	case !e.audit.good():
		fmt.Fprintf(out, "WRONG: not every payment was charged once and booked once (seed %d).\n", o.seed)
		return exitWrong
	case e.aim.open():
		fmt.Fprintf(out, "Every payment was charged once and booked once, but a phase has had no kill (seed %d): ask for more of them (-kills, -payments).\n", o.seed)
		return exitControl
	}
	fmt.Fprintf(out, "GOOD: %d payments, each charged once and booked once, over %d kills, in %.0f s (seed %d).\n",
		e.audit.Payments, e.aim.kills(), e.took.Seconds(), o.seed)
	return exitGood
}
