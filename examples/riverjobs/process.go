package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
)

// roleVariable makes a process a worker.
const roleVariable = "TENURE_RIVERJOBS_ROLE"

type role struct {
	Name     string // River's client ID
	Database string
	Provider string // its URL
	Verbose  bool
}

// attempt is how long a worker that is not heard of keeps others out: a killed one's payment waits for so long. The least
// there is would be 1s; the default is a minute.
const attempt = 2 * time.Second

// runWorker is a worker's main.
func runWorker(ctx context.Context, r role) error {
	pool, err := pgxpool.New(ctx, r.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := pgxidem.New(pool, pgxidem.Config{})
	if err != nil {
		return err
	}
	engine, err := idem.New(store, idem.Config{Attempt: attempt})
	if err != nil {
		return err
	}
	third := provider.Client{URL: r.Provider, Name: r.Name, HTTP: &http.Client{Timeout: 200 * time.Millisecond}}
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, &PayWorker{Engine: engine, Charge: third.Charge}); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		ID: r.Name, Workers: workers, Logger: logger(r.Verbose).With("worker", r.Name),
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		FetchCooldown: 20 * time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
		SoftStopTimeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	if err := child.Tell(r.Name); err != nil {
		return err
	}
	<-client.Stopped()
	return nil
}

func logger(verbose bool) *slog.Logger {
	if verbose {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// install makes River's tables, those of package idem, and the books. entry has no unique index on purpose: it would be a
// second safeguard, and hide what happens without the first.
func install(ctx context.Context, pool *pgxpool.Pool) error {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: logger(false)})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("make River's tables: %w", err)
	}
	store, err := pgxidem.New(pool, pgxidem.Config{})
	if err != nil {
		return err
	}
	if err := store.Install(ctx); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "CREATE TABLE entry (payment TEXT NOT NULL, charge TEXT NOT NULL, account TEXT NOT NULL, amount BIGINT NOT NULL)")
	if err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}
