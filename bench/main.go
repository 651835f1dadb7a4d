// Command bench compares Tenure with locks, with optimistic writes and with other ways to place and to move ownership,
// on this machine and against your servers. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tenure-go/tenure/bench/internal/broker"
	"github.com/tenure-go/tenure/bench/internal/embedded"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/servers"
	"github.com/tenure-go/tenure/bench/internal/zombie"
)

type options struct {
	quick     bool
	full      bool
	start     bool
	addresses servers.Addresses
	only      string
	rounds    int
	trials    int
	shards    int
	json      string
	html      string
	markdown  string
	check     bool
}

func main() {
	var o options
	var etcd, redis, zookeeper, kafka string
	flag.BoolVar(&o.quick, "quick", false, "half a minute: fewer and shorter rounds, which is less to be believed")
	flag.BoolVar(&o.full, "full", false, "more and longer rounds, 1000 members, and Kafka's groups also at their defaults, which takes long")
	flag.BoolVar(&o.start, "servers", false, "start Postgres, etcd, five Redis and ZooKeeper on this machine, by .ci/servers; and Kafka, by .ci/kafka, if Java and Maven are there")
	flag.StringVar(&o.addresses.Postgres, "postgres", "", "`URL` of a Postgres; tables named bench_… are made and dropped there")
	flag.StringVar(&etcd, "etcd", "", "`HOST:PORT,…` of an etcd cluster; without it one runs inside this process")
	flag.StringVar(&redis, "redis", "", "`HOST:PORT,…` of independent Redis servers; five, for redsync on five")
	flag.StringVar(&zookeeper, "zookeeper", "", "`HOST:PORT,…` of a ZooKeeper ensemble")
	flag.StringVar(&kafka, "kafka", "", "`HOST:PORT,…` of Kafka brokers; without them kfake runs inside this process; topics and groups named bench-… are made and deleted")
	flag.StringVar(&o.only, "only", "", "only questions whose names contain one of these, separated by commas: "+strings.Join(names(), ", "))
	flag.IntVar(&o.rounds, "rounds", 0, "turns of each contender in a table of rates; 0: 3, or 2 with -quick and 5 with -full")
	flag.IntVar(&o.trials, "trials", 0, "trials of each contender where ownership moves; 0: 3, or 1 with -quick and 10 with -full")
	flag.IntVar(&o.shards, "shards", 2, "shards of Tenure's group where there are many accounts, in the rows that don't say")
	flag.StringVar(&o.json, "json", "", "write the results to this `FILE`")
	flag.StringVar(&o.html, "html", "", "write one page with plots to this `FILE`")
	flag.StringVar(&o.markdown, "markdown", "", "put the tables into README.md of this `DIR`, and the plots beside it")
	flag.BoolVar(&o.check, "check", false, "fail if a row of Tenure did harm, or if the rows that must show harm don't")
	flag.Usage = help
	flag.Parse()
	if spec := os.Getenv(zombie.Env); spec != "" { // a holder that another of these programs has started
		if err := zombie.Child(context.Background(), spec, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := o.validate(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	o = o.withDefaults()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := o.writable(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	o.addresses.Etcd, o.addresses.Redis, o.addresses.ZooKeeper = list(etcd), list(redis), list(zookeeper)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if kafka != "" {
		var err error
		if o.addresses.Kafka, err = broker.Dial(ctx, list(kafka)); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "tenure-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.start {
		fmt.Fprintln(os.Stderr, "starting servers")
		if err := os.Chmod(dir, 0o711); err != nil { // Postgres runs as another user
			return err
		}
		a, stop, err := servers.Start(ctx, dir)
		if err != nil {
			return err
		}
		defer stop()
		o.addresses = a
	}
	if len(o.addresses.Etcd) == 0 {
		endpoint, stop, err := embedded.Start(ctx, dir+"/etcd")
		if err != nil {
			return err
		}
		defer stop()
		o.addresses.Etcd = []string{endpoint}
	}
	if o.addresses.Kafka == nil {
		fake, stop, err := broker.Fake()
		if err != nil {
			return err
		}
		defer stop()
		o.addresses.Kafka = fake
	}
	places, hangUp, err := servers.Open(ctx, dir, o.addresses)
	defer hangUp()
	if err != nil {
		return err
	}
	r := &report.Report{
		Title: "Tenure beside locks, and beside other ways to own",
		When:  time.Now().UTC().Format("2006-01-02 15:04 UTC"), Quick: o.quick,
		Machine: servers.Facts(ctx, dir, places),
	}
	if o.quick {
		fmt.Println("-quick: not to be quoted")
	}
	fmt.Println(r.Title)
	for _, f := range r.Machine {
		fmt.Printf("  %-10s %s\n", f.Name, f.Value)
	}
	s := &session{options: o, dir: dir, places: places, report: r, progress: progress{terminal: isTerminal()}}
	if err := s.askAll(ctx); err != nil {
		return err
	}
	if err := write(o, r); err != nil || !o.check {
		return err
	}
	if r, err = readBack(o, r); err != nil {
		return err
	}
	return report.Check(r)
}
