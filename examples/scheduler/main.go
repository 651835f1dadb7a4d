// Command scheduler runs a job at planned times on one of several nodes: a cron that survives its machine.
//
//	go run ./examples/scheduler                          three nodes as processes, an etcd inside this one, 20 s
//	go run ./examples/scheduler -etcd localhost:2379 -for 1m
//
// Each second an invoice run is due. It has two steps: collect what is to be billed, and post it to a receiver, here this process, that honours
// idempotency keys. Every few seconds the node that is in the middle of a run is killed (SIGKILL). In the end each planned time must have
// been collected and posted, in order, and none have been accepted twice. schedule.go is what to copy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/examples/internal/embedded"
)

type options struct {
	etcd  string
	nodes int
	every time.Duration
	kill  time.Duration
	run   time.Duration
}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var r role
	if ok, err := child.Role(roleVariable, &r); ok {
		if err == nil {
			err = runNode(ctx, r)
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	var o options
	flag.StringVar(&o.etcd, "etcd", "", "endpoint of your etcd; empty: one inside this process")
	flag.IntVar(&o.nodes, "nodes", 3, "how many")
	flag.DurationVar(&o.every, "every", time.Second, "between planned times")
	flag.DurationVar(&o.kill, "kill", 6*time.Second, "between kills of the node in charge; 0: none")
	flag.DurationVar(&o.run, "for", 20*time.Second, "how long")
	flag.Parse()
	if err := play(ctx, o); err != nil {
		log.Fatal(err)
	}
}

func (o options) check() error {
	var faults []error
	if o.nodes < 1 {
		faults = append(faults, fmt.Errorf("-nodes is %d: want at least 1", o.nodes))
	}
	if o.every < 100*time.Millisecond {
		faults = append(faults, fmt.Errorf("-every is %v: want at least 100ms", o.every))
	}
	if o.kill < 0 || o.run <= 0 {
		faults = append(faults, errors.New("-kill and -for: want times above 0; -kill 0 for none"))
	}
	return errors.Join(faults...)
}

// play runs nodes for a while, kills some of them in the middle of a run, and says what came of it.
func play(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	endpoint := o.etcd
	if endpoint == "" {
		dir, err := os.MkdirTemp("", "tenure-scheduler")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		e, stop, err := embedded.Start(ctx, dir)
		if err != nil {
			return err
		}
		defer stop()
		endpoint = e
	}
	ctx, cancel := context.WithTimeout(ctx, o.run)
	defer cancel()

	f := child.New[report](roleVariable)
	defer f.Stop()
	started := 0
	start := func() error {
		started++
		r := role{Etcd: endpoint, Every: o.every, Name: fmt.Sprintf("invoices-%d", os.Getpid()), Node: fmt.Sprint("node-", started)}
		return f.Start(r.Node, r)
	}
	for range o.nodes {
		if err := start(); err != nil {
			return err
		}
	}
	l := newLedger(o.every)
	nextKill := time.Now().Add(o.kill)
	for {
		select {
		case r := <-f.Reports():
			l.take(r)
			// In turn: before it has posted, and after that, before it could record so.
			moment := []string{posting, posted}[l.kills%2]
			if r.What == moment && o.kill > 0 && time.Now().After(nextKill) {
				l.say("%s is killed while the run of %s is %s", r.Node, clock(r.At), moment)
				f.Kill(r.Node)
				l.kills++
				nextKill = time.Now().Add(o.kill)
				if err := start(); err != nil {
					return err
				}
			}
		case err := <-f.Failed():
			return err
		case <-ctx.Done():
			for _, r := range f.Stop() {
				l.take(r)
			}
			return l.verdict()
		}
	}
}
