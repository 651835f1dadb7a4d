// Riverjobs makes payments by jobs of River (riverqueue.com), the job queue in Postgres, each once, while its workers are killed.
//
//	go run ./examples/riverjobs -database postgres://…    about 15 s; works in a schema of its own, which it removes
//
// River runs a job at least once. This example's jobs charge a provider over HTTP and then book the charge; package idem makes
// that happen once for each payment, though workers are killed (SIGKILL) between the charge and the booking, some
// payments are queued twice, and the provider cuts connections and loses replies. worker.go is what to copy.
//
// What belongs to River is as in any program of River's: it may be installed already, and its jobs need no change.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tenure-go/tenure/examples/internal/child"
)

// Exit statuses.
const (
	exitGood    = 0
	exitWrong   = 1 // a payment was not charged or booked once, or the run failed
	exitUsage   = 2
	exitControl = 3 // no kill landed between charge and booking: the experiment itself is at fault
)

// needs is what it says without a database. That is no failure, so the status is 0.
const needs = `riverjobs: NOTHING WAS RUN. It needs a Postgres, 14 or later, whose user may make a schema:

	docker run --rm -e POSTGRES_PASSWORD=secret -p 5432:5432 postgres
	go run ./examples/riverjobs -database 'postgres://postgres:secret@localhost:5432/postgres'
`

type options struct {
	database string
	payments int
	kills    int
	seed     uint64
	verbose  bool
	limit    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r role
	if ok, err := child.Role(roleVariable, &r); ok {
		os.Exit(worker(ctx, r, err))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func worker(ctx context.Context, r role, err error) int {
	if err == nil {
		err = runWorker(ctx, r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", r.Name, err)
		return exitWrong
	}
	return exitGood
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	f := flag.NewFlagSet("riverjobs", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.database, "database", "", "a `URL` of Postgres")
	f.IntVar(&o.payments, "payments", 100, "how many, 20 to 10000")
	f.IntVar(&o.kills, "kills", 4, "of workers, 1 to 20")
	f.Uint64Var(&o.seed, "seed", 1, "of payments and faults")
	f.BoolVar(&o.verbose, "v", false, "show River's logs on stderr")
	f.DurationVar(&o.limit, "limit", 2*time.Minute, "give up after that long")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitGood
	case err != nil:
		return exitUsage
	case f.NArg() > 0 || o.payments < 20 || o.payments > 10000 || o.kills < 1 || o.kills > 20:
		fmt.Fprintln(stderr, "riverjobs: want no arguments, -payments 20 to 10000, -kills 1 to 20")
		return exitUsage
	case o.database == "":
		fmt.Fprint(stdout, needs)
		return exitGood
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("it took more than %v (-limit)", o.limit))
	defer cancel()
	status, err := play(ctx, o, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "riverjobs:", err)
		return exitWrong
	}
	return status
}
