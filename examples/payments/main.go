// Payments charges customers over HTTP and books the charges in SQL, each once, while the nodes that do so are killed.
//
//	go run ./examples/payments                          about 20 s; needs nothing but Go
//	go run ./examples/payments -no-idem                 the same without package idem, and what that costs
//	go run ./examples/payments -database postgres://…   books in a schema of its own there, not in SQLite
//
// The nodes are processes of their own: this program again. They share the accounts as shards of a group; a shard's owner works
// off its jobs, from a queue in the database. A job charges a provider, which no transaction spans, and then books the
// charge. The provider is part of this process: it honours idempotency keys, and besides cuts connections, loses replies and lets
// clients wait for nothing. Nodes are killed (SIGKILL) while a payment is in each of four phases:
//
//	before the charge             the provider has not charged
//	between charge and booking    charged, and not booked
//	after booking                 booked, and the operation is not recorded as done
//	while finishing               recorded as done, and still in the queue
//
// The next owner goes on with it at once: its epoch is higher, so it need not wait for the dead node's attempt to end. In the
// end each payment must have been charged once and booked once, and each phase have had a kill.
//
// pay.go is what to copy, worker.go is how a shard's owner works off a queue; witness.go kills, and audit.go counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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
	exitControl = 3 // a phase had no kill, or -no-idem did no harm: the experiment itself is at fault
)

type options struct {
	payments int
	kills    int
	nodes    int
	shards   int
	seed     uint64
	noIdem   bool
	verbose  bool
	database string
	etcd     string
	limit    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r role
	if ok, err := child.Role(roleVariable, &r); ok {
		os.Exit(node(ctx, r, err))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// node is a node's main.
func node(ctx context.Context, r role, err error) int {
	if err == nil {
		err = runNode(ctx, r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", r.Node, err)
		return exitWrong
	}
	return exitGood
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("payments", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.payments, "payments", 500, "how many, 20 to 100000")
	f.IntVar(&o.kills, "kills", 12, "of nodes, 4 to 1000; more if by then a phase has had none")
	f.IntVar(&o.nodes, "nodes", 4, "at a time, 1 to 20")
	f.IntVar(&o.shards, "shards", 8, "of the group, 1 to 1024")
	f.Uint64Var(&o.seed, "seed", 0, "of payments, faults and kills; the rest is up to the machine (default: drawn)")
	f.BoolVar(&o.noIdem, "no-idem", false, "do without package idem, to see what it prevents; exit status 1 is then as it should be")
	f.BoolVar(&o.verbose, "v", false, "show the nodes' logs on stderr")
	f.StringVar(&o.database, "database", "", "a `URL` of Postgres (default: SQLite in a temporary directory)")
	f.StringVar(&o.etcd, "etcd", "", "your own etcd, as `HOST:PORT`, instead of one inside this process")
	f.DurationVar(&o.limit, "limit", 3*time.Minute, "give up after that long")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var faults []error
	check := func(name string, n, least, most int) {
		if n < least || n > most {
			faults = append(faults, fmt.Errorf("-%s %d: want %d to %d", name, n, least, most))
		}
	}
	check("payments", o.payments, 20, 100000)
	check("kills", o.kills, 4, min(1000, o.payments/4))
	check("nodes", o.nodes, 1, 20)
	check("shards", o.shards, 1, 1024)
	if f.NArg() > 0 {
		faults = append(faults, fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	if o.database != "" && !isPostgres(o.database) {
		faults = append(faults, errors.New("-database: want postgres://…"))
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1e9) + 1
	}
	err := errors.Join(faults...)
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	return o, err
}

// run is the parent's main.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitGood
	}
	if err != nil {
		return exitUsage
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("it took more than %v (-limit)", o.limit))
	defer cancel()
	end, err := play(ctx, o, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "payments: seed %d: %v\n", o.seed, err)
		return exitWrong
	}
	return end.verdict(stdout, o)
}
