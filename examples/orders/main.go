// Orders consumes two topics of Kafka, keeps an account for each customer, and answers questions about it where it is
// kept.
//
//	go run ./examples/orders                          about 16 s; needs nothing but Go
//	go run ./examples/orders -brokers localhost:9092  with your Kafka, in topics that it makes and deletes
//
// The topics orders and payments have as many partitions as the group has shards, and the same keys, the customers.
// So a customer's orders, its payments and the requests that ask for it all come to one process, the owner of its shard, under
// one epoch: nothing is joined over the network and nobody locks. An account is in memory there and in a SQL database, where
// each batch of records is one transaction: entry, account and position together, behind the fence. So each record
// counts once, whatever dies.
//
// Why SQL here, and not a changelog, which would do without a database: two topics have two positions, and a transaction takes
// any number of them, while a changelog stores one input's. The database is SQLite in a file that all processes share;
// with fence.Postgres it is the same code.
//
// The nodes are processes: this program again. While records and questions come in, one leaves in good order, one is killed
// (SIGKILL) and comes back. Some records are spoilt and go to a dead-letter topic. In the end the topics are read by a client
// that knows nothing of all that, and replayed one record after the other: accounts, entries, answers and dead letters must
// be what the replay says.
//
// Read it in this order:
//
//	shop.go       what a user of the library writes: two consumers in one tenure
//	database.go   what they write, in one transaction
//	web.go        GET /customers/{id} at the owner, GET /lag from all
//	node.go       a node's main
//	story.go      what happens; load.go and questions.go are those who produce and ask
//	verify.go     the audit
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tenure-go/tenure/examples/internal/child"
)

// Exit statuses.
const (
	exitGood  = 0
	exitWrong = 1 // something is not as the replay says, or the run failed
	exitUsage = 2
)

type options struct {
	records   int
	over      time.Duration
	processes int
	shards    int
	seed      uint64
	verbose   bool
	brokers   []string // none: one inside this process
	etcd      string
	limit     time.Duration
}

func main() {
	var r role
	if ok, err := child.Role(roleVariable, &r); ok {
		os.Exit(nodeMain(r, err))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var brokers string
	f := flag.NewFlagSet("orders", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.records, "records", 6000, "in both topics together, 100 to 1000000")
	f.DurationVar(&o.over, "for", 14*time.Second, "how long to take to produce them, 1s to 1h")
	f.IntVar(&o.processes, "processes", 3, "nodes at the start, 3 to 9")
	f.IntVar(&o.shards, "shards", 12, "of the group, and partitions of each topic, 4 to 256")
	f.Uint64Var(&o.seed, "seed", 1, "of the records; when they come is up to the machine")
	f.BoolVar(&o.verbose, "v", false, "show the nodes' logs on stderr")
	f.StringVar(&brokers, "brokers", "", "your own Kafka, as `HOST:PORT,…`, instead of one inside this process")
	f.StringVar(&o.etcd, "etcd", "", "your own etcd, as `HOST:PORT`, instead of one inside this process")
	f.DurationVar(&o.limit, "limit", 0, "give up after that long (default: -for and two minutes)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(o.records >= 100 && o.records <= 1e6, "-records %d: want 100 to 1000000", o.records)
	check(o.over >= time.Second && o.over <= time.Hour, "-for %v: want 1s to 1h", o.over)
	check(o.processes >= 3 && o.processes <= 9, "-processes %d: want 3 to 9: one leaves, one is killed, and somebody must be left", o.processes)
	check(o.shards >= 4 && o.shards <= 256 && o.shards >= o.processes, "-shards %d: want 4 to 256, and one for each process", o.shards)
	check(o.limit >= 0, "-limit %v: want more than 0", o.limit)
	check(f.NArg() == 0, "unexpected argument %q", f.Arg(0))
	if brokers != "" {
		o.brokers = strings.Split(brokers, ",")
	}
	for _, b := range o.brokers {
		check(isAddress(b), "-brokers: %q is not HOST:PORT", b)
	}
	check(o.etcd == "" || isAddress(o.etcd), "-etcd: %q is not HOST:PORT", o.etcd)
	if o.limit == 0 {
		o.limit = o.over + 2*time.Minute
	}
	err := errors.Join(faults...)
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	return o, err
}

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	return err == nil && host != "" && port != ""
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
	limited, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("it took more than %v (-limit)", o.limit))
	defer cancel()
	s := &story{options: o, out: stdout, began: time.Now(), token: rand.Uint64()}
	good, err := s.run(limited)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "orders: interrupted; all processes are stopped and all files removed")
		return exitWrong
	case err != nil:
		fmt.Fprintf(stderr, "orders: %v\n", err)
		return exitWrong
	case !good:
		return exitWrong
	}
	return exitGood
}
