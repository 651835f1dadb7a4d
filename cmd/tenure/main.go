// Command tenure is the operator's tool for a group: who its members are, and the wishes that an operator may record in
// etcd for them. It needs no node, and changes nothing that a library call could not (owner.Admin).
//
//	tenure -etcd HOST:2379 -group accounts members
//	tenure … drain ID               give all its shards away, also after it comes back under that id
//	tenure … undrain ID
//	tenure … pin SHARD ID           keep a shard with a member as long as that is eligible
//	tenure … unpin SHARD
//	tenure … raise-lineage ABOVE    after etcd was restored from a backup: docs/operations.md
//
// With users and passwords in etcd set ETCD_USERNAME and ETCD_PASSWORD; with TLS -cacert, -cert and -key. It exits with 1 if
// something failed, and with 2 if it was not understood.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas/etcdkv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	etcd, group, prefix string
	cacert, cert, key   string
	timeout             time.Duration
}

func run(ctx context.Context, args []string, out, complaints io.Writer) (status int) {
	var o options
	f := flag.NewFlagSet("tenure", flag.ContinueOnError)
	f.SetOutput(complaints)
	f.StringVar(&o.etcd, "etcd", "localhost:2379", "`HOST:PORT,…` of etcd")
	f.StringVar(&o.group, "group", "", "the group's name; required")
	f.StringVar(&o.prefix, "prefix", "/tenure", "what the group's keys lie under")
	f.StringVar(&o.cacert, "cacert", "", "`FILE` with the certificates that etcd's is checked by; its presence means TLS")
	f.StringVar(&o.cert, "cert", "", "`FILE` with this client's certificate")
	f.StringVar(&o.key, "key", "", "`FILE` with its key")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "for all of it")
	f.Usage = func() {
		fmt.Fprintf(complaints, "tenure [flags] COMMAND\n\n%s\nflags:\n", usage())
		f.PrintDefaults()
	}
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	c, err := parse(f.Args())
	if err == nil && o.group == "" {
		err = errors.New("-group is required")
	}
	if err != nil {
		fmt.Fprintf(complaints, "tenure: %v; -help tells more\n", err)
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := o.do(ctx, c, out); err != nil {
		fmt.Fprintln(complaints, "tenure:", err)
		return 1
	}
	return 0
}

// do connects and carries out c.
func (o options) do(ctx context.Context, c call, out io.Writer) error {
	security, err := o.tls()
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(o.etcd, ","), TLS: security, Logger: zap.NewNop(),
		Username: os.Getenv("ETCD_USERNAME"), Password: os.Getenv("ETCD_PASSWORD"),
	})
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", o.etcd, err)
	}
	defer client.Close()
	store := etcdkv.New(client)
	defer store.Close()
	g, err := o.find(ctx, store)
	if err != nil {
		return err
	}
	return c.run(ctx, store, g, out)
}
