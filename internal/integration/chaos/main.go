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
)

// Exit statuses.
const (
	exitGood  = 0
	exitWrong = 1 // a check failed, or the run proved nothing, or it could not be done
	exitUsage = 2

	exitControl = 3 // -no-fence went unnoticed: the checks themselves are at fault
)

// options are the command line.
type options struct {
	length         time.Duration
	seed           uint64
	clients        int
	ttl            time.Duration
	postgres       string
	noFence        bool
	rolling        int
	rollingDefault bool
	check          string
	keep           bool
	only           string
	plan           bool
}

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(runNode(role))
	}
	os.Exit(runParent(os.Args[1:], os.Stdout, os.Stderr))
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.DurationVar(&o.length, "for", time.Minute, "how long faults happen, at least 5s")
	f.Uint64Var(&o.seed, "seed", 0, "`number` that fixes the plan of faults; 0 draws one")
	f.IntVar(&o.clients, "clients", 40, "number of clients, 1 to 200")
	f.DurationVar(&o.ttl, "ttl", 3*time.Second, "of the nodes' leases, 2s to 10s")
	f.StringVar(&o.postgres, "postgres", os.Getenv("TENURE_TEST_POSTGRES"), "`URL` of a Postgres. Defaults to TENURE_TEST_POSTGRES, and without that to one that is started for the run")
	f.BoolVar(&o.noFence, "no-fence", false, "write without fence and guard, and stop owners; exit status 1 is then as it should be")
	f.IntVar(&o.rolling, "rolling", 0, "instead of faults, restart all nodes one after another, so many `rounds`")
	f.BoolVar(&o.rollingDefault, "rolling-default", false, "as -rolling 1, with the library's default times")
	f.StringVar(&o.check, "check", "", "run nothing: check the history in `FILE`")
	f.BoolVar(&o.keep, "keep", false, "keep history and logs of a run that is good")
	f.StringVar(&o.only, "only", "", "only faults of these `kinds`, separated by commas")
	f.BoolVar(&o.plan, "plan", false, "run nothing: print the faults that -seed and -for give")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.rollingDefault && o.rolling == 0 {
		o.rolling = 1
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1 // short enough to be typed
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.length < 5*time.Second:
		err = fmt.Errorf("-for %v: want at least 5s", o.length)
	case o.clients < 1 || o.clients > 200:
		err = fmt.Errorf("-clients %d: want 1 to 200", o.clients)
	case o.ttl < 2*time.Second || o.ttl > 10*time.Second:
		err = fmt.Errorf("-ttl %v: want 2s to 10s", o.ttl)
	case o.rolling < 0:
		err = fmt.Errorf("-rolling %d: want at least 1", o.rolling)
	case o.noFence && o.rolling > 0:
		err = errors.New("-no-fence and -rolling exclude each other")
	default:
		err = o.checkKinds()
	}
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
	}
	return o, err
}

// replay is the command that runs o again.
func (o options) replay() string {
	s := "go run ./internal/integration/chaos"
	switch {
	case o.rollingDefault:
		s += fmt.Sprintf(" -rolling-default -rolling %d", o.rolling)
	case o.rolling > 0:
		s += fmt.Sprintf(" -rolling %d", o.rolling)
	default:
		s += fmt.Sprintf(" -for %v", o.length)
	}
	if o.noFence {
		s += " -no-fence"
	}
	if o.only != "" {
		s += " -only " + o.only
	}
	return s + fmt.Sprintf(" -ttl %v -clients %d -seed %d", o.ttl, o.clients, o.seed)
}

// runParent is the role of the process that the user starts. It returns the exit status.
func runParent(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitGood
	}
	if err != nil {
		return exitUsage
	}
	switch {
	case o.plan:
		for _, f := range o.faults() {
			fmt.Fprintln(stdout, f)
		}
		return exitGood
	case o.check != "":
		err = checkFile(o.check, stdout)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		signal.Ignore(syscall.SIGPIPE) // in front of head, say: go on to the end and clean up
		err = run(ctx, o, stdout)
		if ctx.Err() != nil {
			err = errors.New("interrupted; all processes are stopped and all files removed")
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		if errors.Is(err, errControl) {
			return exitControl
		}
		return exitWrong
	}
	return exitGood
}
