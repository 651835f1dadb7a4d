// Quickstart runs a bank on real processes, breaks it in every way that matters, and then counts the money.
//
//	go run ./examples/quickstart              about 10 s; needs nothing but Go
//	go run ./examples/quickstart -no-fence    the same without the fence, and what that costs
//
// It starts etcd inside this process and three nodes as processes of their own: this program again, in
// another role. Accounts are hashed to 64 shards, each shard has one owner, and all keep their
// accounts in one SQLite database. Clients deposit and transfer through any node. Meanwhile a node
// joins, one leaves, one is killed, and one is stopped in the middle of a write and woken once another
// has taken over. In the end every acknowledged operation must be in the balances exactly once.
//
// Read it in this order:
//
//	bank.go       what a user of the library writes: one goroutine for each shard, writes under the fence
//	node.go       a node's main: store, database, node, router, server
//	story.go      what happens, act by act; handoff.go, crash.go and zombie.go are the acts
//	client.go     what a client may send again, and what it counts as acknowledged; load.go is many of them
//	verify.go     the audit, which believes the database alone
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	exitGood    = 0
	exitWrong   = 1 // the audit failed, or the run did
	exitUsage   = 2
	exitControl = 3 // -no-fence showed no damage: the experiment itself is at fault
)

// options are the command line.
type options struct {
	json    bool
	noFence bool
	etcd    string
	verbose bool
	shards  int
	clients int
}

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(runNode(role))
	}
	os.Exit(runStory(os.Args[1:], os.Stdout, os.Stderr))
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.json, "json", false, "print only the summary, as one JSON object")
	f.BoolVar(&o.noFence, "no-fence", false, "turn the guard off, to see what it prevents; exit status 1 is then as it should be")
	f.StringVar(&o.etcd, "etcd", "", "your own etcd, as `HOST:PORT,…`, instead of one inside this process")
	f.BoolVar(&o.verbose, "v", false, "show the nodes' logs on stderr")
	f.IntVar(&o.shards, "shards", 64, "number of shards, 8 to 1024")
	f.IntVar(&o.clients, "clients", 8, "number of clients, 1 to 64")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.shards < 8 || o.shards > 1024:
		err = fmt.Errorf("-shards %d: want 8 to 1024", o.shards)
	case o.clients < 1 || o.clients > 64:
		err = fmt.Errorf("-clients %d: want 1 to 64", o.clients)
	}
	if err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
	}
	return o, err
}

// runStory is the parent's role: it returns the exit status.
func runStory(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitGood
	}
	if err != nil {
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // in front of head, say: go on to the end and clean up

	out := stdout
	if o.json {
		out = io.Discard
	}
	s := &story{options: o, report: newReport(out), stderr: stderr}
	sum, err := s.run(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; all processes are stopped and all files removed")
		}
		fmt.Fprintln(stderr, "quickstart:", err)
		return exitWrong
	}
	if o.json {
		if err := json.NewEncoder(stdout).Encode(sum); err != nil {
			fmt.Fprintln(stderr, "quickstart:", err)
			return exitWrong
		}
	}
	return s.verdict(sum)
}

// endpoints splits -etcd.
func (o options) endpoints() []string {
	return strings.FieldsFunc(o.etcd, func(r rune) bool { return r == ',' || r == ' ' })
}
