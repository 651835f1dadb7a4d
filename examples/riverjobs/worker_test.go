package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tenure-go/tenure/examples/internal/provider"
	"github.com/tenure-go/tenure/examples/internal/schema"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
)

// office is a database with River's tables and the books, and a provider that honours keys.
type office struct {
	pool   *pgxpool.Pool
	engine *idem.Engine

	mu   sync.Mutex // guards keys
	keys []string   // in the order of the requests
}

func open(t *testing.T) *office {
	t.Helper()
	place, drop, err := schema.Create(t.Context(), postgres(t), fmt.Sprintf("tenure_riverjobs_test_%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	pool, err := pgxpool.New(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := install(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	store, err := pgxidem.New(pool, pgxidem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := idem.New(store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &office{pool: pool, engine: engine}
}

func (o *office) note(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = append(o.keys, key)
}

// work starts a client whose workers charge that way.
func (o *office) work(t *testing.T, charge func(ctx context.Context, key string, p provider.Payment) (string, error)) *river.Client[pgx.Tx] {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, &PayWorker{Engine: o.engine, Charge: charge})
	client, err := river.NewClient(riverpgxv5.New(o.pool), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}, Logger: logger(false),
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	return client
}

// once holds the office to one entry for the payment, and its requests to one key.
func (o *office) once(t *testing.T, requests int) {
	t.Helper()
	var got, want []string
	rows, err := o.pool.Query(t.Context(), "SELECT payment || ' ' || charge || ' ' || amount FROM entry")
	if err == nil {
		got, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	want = []string{"rent ch-1 900"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	for _, key := range o.keys {
		if key == "" || key != o.keys[0] {
			t.Errorf("keys %q, want one", o.keys)
		}
	}
	if len(o.keys) != requests {
		t.Errorf("%d requests to the provider, want %d", len(o.keys), requests)
	}
}

// completed waits for n jobs to be completed.
func completed(t *testing.T, events <-chan *river.Event, n int) {
	t.Helper()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for range n {
		select {
		case <-events:
		case <-timeout.C:
			t.Fatal("waited 30s for a job to be completed")
		}
	}
}

var rent = PayArgs{provider.Payment{ID: "rent", Account: "alice", Amount: 900}}

// TestStoppedBetweenChargeAndBooking: a client is stopped when its worker has charged, and another's makes the payment from
// there.
func TestStoppedBetweenChargeAndBooking(t *testing.T) {
	o := open(t)
	reached := make(chan struct{})
	first := o.work(t, func(ctx context.Context, key string, _ provider.Payment) (string, error) {
		o.note(key)
		close(reached)
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	if _, err := first.Insert(t.Context(), rent, nil); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := first.StopAndCancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := o.work(t, func(_ context.Context, key string, _ provider.Payment) (string, error) {
		o.note(key)
		return "ch-1", nil
	})
	defer second.Stop(context.WithoutCancel(t.Context()))
	events, stop := second.Subscribe(river.EventKindJobCompleted)
	defer stop()
	completed(t, events, 1)
	o.once(t, 2)
}

// TestTakenForStuck: a job is run again while its first worker is still at it, as by a rescue that came too soon, or because
// its producer has queued it twice. The second waits, and finds the first one's result.
func TestTakenForStuck(t *testing.T) {
	o := open(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	client := o.work(t, func(_ context.Context, key string, _ provider.Payment) (string, error) {
		o.note(key)
		close(reached) // a second time it would panic
		<-goOn
		return "ch-1", nil
	})
	defer client.Stop(context.WithoutCancel(t.Context()))
	done, stopDone := client.Subscribe(river.EventKindJobCompleted)
	defer stopDone()
	snoozed, stopSnoozed := client.Subscribe(river.EventKindJobSnoozed)
	defer stopSnoozed()
	for range 2 {
		if _, err := client.Insert(t.Context(), rent, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-reached
	completed(t, snoozed, 1)
	close(goOn)
	completed(t, done, 2)
	o.once(t, 1)
}

// TestDeclined: River does not try a payment again that the provider has declined.
func TestDeclined(t *testing.T) {
	o := open(t)
	client := o.work(t, func(_ context.Context, key string, _ provider.Payment) (string, error) {
		o.note(key)
		return "", &provider.DeclinedError{Status: 402, Reason: "no money"}
	})
	defer client.Stop(context.WithoutCancel(t.Context()))
	cancelled, stop := client.Subscribe(river.EventKindJobCancelled)
	defer stop()
	for range 2 {
		if _, err := client.Insert(t.Context(), rent, nil); err != nil {
			t.Fatal(err)
		}
		completed(t, cancelled, 1)
	}
	if len(o.keys) != 1 {
		t.Errorf("%d requests to the provider, want 1", len(o.keys))
	}
}
