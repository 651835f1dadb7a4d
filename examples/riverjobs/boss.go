package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/examples/internal/provider"
)

// boss is the parent's part.
type boss struct {
	out     io.Writer
	pool    *pgxpool.Pool
	third   *provider.Provider
	charges <-chan provider.Charge
	fleet   *child.Fleet[string]
	role    role
	started int
	twice   int // queued twice
	kills   int
	between int // kills between charge and booking
}

func (b *boss) start() error {
	b.started++
	r := b.role
	r.Name = fmt.Sprint("worker-", b.started)
	return b.fleet.Start(r.Name, r)
}

// run queues the payments in lots, every fourth payment twice, and kills a worker in each lot but the last. It returns when
// all jobs are completed.
func (b *boss) run(ctx context.Context, payments []provider.Payment, kills int) error {
	client, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{Logger: logger(b.role.Verbose)}) // which inserts only
	if err != nil {
		return err
	}
	lots := kills + 1
	for i := range lots {
		var jobs []river.InsertManyParams
		for j, p := range payments[i*len(payments)/lots : (i+1)*len(payments)/lots] {
			jobs = append(jobs, river.InsertManyParams{Args: PayArgs{p}})
			if j%4 == 0 {
				jobs = append(jobs, river.InsertManyParams{Args: PayArgs{p}})
				b.twice++
			}
		}
		if _, err := client.InsertMany(ctx, jobs); err != nil {
			return fmt.Errorf("queue jobs: %w", err)
		}
		if i < kills {
			if err := b.kill(ctx); err != nil {
				return err
			}
		}
	}
	return b.wait(ctx)
}

// kill kills the worker that charges next, and starts another.
func (b *boss) kill(ctx context.Context) error {
	for len(b.charges) > 0 {
		<-b.charges // made before now, so that it says nothing
	}
	c, err := b.hear(ctx, time.Hour)
	if err != nil {
		return err
	}
	b.fleet.Kill(c.By)
	b.kills++
	var entries int
	if err := b.pool.QueryRow(ctx, "SELECT count(*) FROM entry WHERE payment = $1", c.ID).Scan(&entries); err != nil {
		return err
	}
	if entries == 0 {
		b.between++
	}
	fmt.Fprintf(b.out, "%s was killed after it had charged %s; booked by then: %t\n", c.By, c.ID, entries > 0)
	// What River's leader does with jobs that have been running for an hour (RescueStuckJobsAfter), so that nobody need wait
	// for that here. The payments themselves wait for the attempt to end: until then their jobs are snoozed.
	_, err = b.pool.Exec(ctx, `UPDATE river_job SET state = 'available', scheduled_at = now()
		WHERE state = 'running' AND attempted_by[array_upper(attempted_by, 1)] = $1`, c.By)
	if err != nil {
		return fmt.Errorf("rescue jobs: %w", err)
	}
	return b.start()
}

// wait returns when all jobs are completed. One that is given up is an error.
func (b *boss) wait(ctx context.Context) error {
	for {
		var open, lost int
		err := b.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state <> 'completed'),
			count(*) FILTER (WHERE state IN ('discarded', 'cancelled')) FROM river_job`).Scan(&open, &lost)
		switch {
		case err != nil:
			return err
		case lost > 0:
			return fmt.Errorf("%d jobs were given up", lost)
		case open == 0:
			return nil
		}
		if _, err := b.hear(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d jobs are not completed: %w", open, err)
		}
	}
}

// hear returns the next charge, or nothing after d.
func (b *boss) hear(ctx context.Context, d time.Duration) (provider.Charge, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case c := <-b.charges:
			return c, nil
		case <-timer.C:
			return provider.Charge{}, nil
		case <-b.fleet.Reports():
		case err := <-b.fleet.Failed():
			return provider.Charge{}, err
		case <-ctx.Done():
			return provider.Charge{}, context.Cause(ctx)
		}
	}
}

// verdict compares what was asked for with what the provider and the books have.
func (b *boss) verdict(ctx context.Context, payments []provider.Payment) (int, error) {
	rows, err := b.pool.Query(ctx, "SELECT payment, account, amount, charge FROM entry")
	if err != nil {
		return exitWrong, err
	}
	entries := make(map[string][]provider.Charge)
	var e provider.Charge
	_, err = pgx.ForEachRow(rows, []any{&e.ID, &e.Account, &e.Amount, &e.Charge}, func() error {
		entries[e.ID] = append(entries[e.ID], e)
		return nil
	})
	if err != nil {
		return exitWrong, err
	}
	wrong := 0
	for _, p := range payments {
		c, e := b.third.Charges(p.ID), entries[p.ID]
		if len(c) != 1 || len(e) != 1 || c[0].Payment != p || e[0].Payment != p || c[0].Charge != e[0].Charge {
			fmt.Fprintf(b.out, "%s: charged %d times, booked %d times\n", p.ID, len(c), len(e))
			wrong++
		}
	}
	if b.third.Total() != len(payments) || len(entries) != len(payments) {
		wrong++
	}
	f := b.third.Figures()
	fmt.Fprintf(b.out, "\n%d kills, %d of them between charge and booking; %d payments were queued twice; %d of %d requests came again and were known by their key\n",
		b.kills, b.between, b.twice, f.Known, f.Requests)
	switch {
	case wrong > 0:
		fmt.Fprintln(b.out, "WRONG: not every payment was charged once and booked once.")
		return exitWrong, nil
	case b.between == 0:
		fmt.Fprintln(b.out, "Every payment was charged once and booked once, but no kill landed in between: ask for more of them (-kills).")
		return exitControl, nil
	}
	fmt.Fprintf(b.out, "GOOD: %d payments, each charged once and booked once.\n", len(payments))
	return exitGood, nil
}
