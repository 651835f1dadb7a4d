// Accounts is a service to copy: accounts with balances, over HTTP and gRPC, in one binary that runs as often as you like.
//
//	go run ./examples/accounts                     etcd inside the process, SQLite in a temporary directory
//	go run ./examples/accounts -etcd HOST:PORT     your etcd; and Postgres, if DATABASE_URL is postgres://…
//
// Each account's shard has one owner, who holds balances in memory, applies what was asked in batches, and writes a
// batch in one fenced transaction. Every change carries an operation id of the client's, stored with its effect, so
// that sending it again never applies it again.
//
// Read it in this order:
//
//	group.go     the one declaration that all processes share
//	change.go    what clients ask for, and what is said no to
//	ledger.go    the owner's work: open a tenure, decide a batch, write it, remember it
//	book.go      what an owner has in memory
//	vault.go     what it needs of a database; sqlite.go and postgres.go are two
//	web.go       HTTP; rpc.go is gRPC, and streams.go ends its watches
//	serve.go     node, router and servers, put together and run
//	config.go    flags and environment; etcd.go connects to the store
//
// README.md has commands to try it with, deploy has what Kubernetes needs.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stderr))
}

// Exit statuses.
const (
	exitGood  = 0
	exitWrong = 1
	exitUsage = 2
)

func run(ctx context.Context, args []string, env func(string) string, stderr io.Writer) int {
	c, err := parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitGood
	case err != nil:
		return exitUsage
	}
	if err := start(ctx, c, c.logger(stderr)); err != nil {
		fmt.Fprintln(stderr, "accounts:", err)
		return exitWrong
	}
	return exitGood
}
