package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
)

// config is what the process is told. Secrets come from the environment, which ps does not show.
type config struct {
	etcd      etcdConfig
	database  string // "": SQLite, in data
	data      string // "": a temporary directory
	http      string // addresses to listen on
	grpc      string
	debug     string
	advertise string // host under which peers reach this process
	json      bool   // the log

	owner owner.Config
	serve router.ServeConfig
}

func parse(args []string, env func(string) string, stderr io.Writer) (config, error) {
	var c config
	var endpoints string
	f := flag.NewFlagSet("accounts", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&endpoints, "etcd", "", "comma-separated `endpoints`, https:// for TLS; empty: one inside this process")
	f.StringVar(&c.etcd.ca, "etcd-ca", "", "`file` with the certificates of authorities that etcd's is checked by; empty: the system's")
	f.StringVar(&c.etcd.cert, "etcd-cert", "", "`file` with this client's certificate, read anew for each connection")
	f.StringVar(&c.etcd.key, "etcd-key", "", "`file` with its key")
	f.StringVar(&c.data, "data", "", "`directory` for SQLite and the etcd inside; empty: a temporary one")
	f.StringVar(&c.http, "http", "127.0.0.1:8080", "`address` to serve HTTP on")
	f.StringVar(&c.grpc, "grpc", "127.0.0.1:9090", "`address` to serve gRPC on")
	f.StringVar(&c.debug, "debug", "127.0.0.1:6060", "`address` for status page and profiles")
	f.StringVar(&c.advertise, "advertise", "127.0.0.1", "`host` under which other processes reach this one: the pod's address")
	f.StringVar(&c.owner.ID, "id", "", "`name` of this process, with the promise that no other of that name lives: it takes over from one that crashed. The pod's name; "+
		"empty: a random one")
	f.BoolVar(&c.json, "log-json", false, "write the log as JSON")
	f.DurationVar(&c.owner.TTL, "ttl", 10*time.Second, "how long a dead process's accounts stay unserved")
	f.DurationVar(&c.owner.DrainTimeout, "drain", 8*time.Second, "how long requests may hold up a hand-off")
	f.DurationVar(&c.serve.Linger, "linger", 5*time.Second, "how long load balancers may go on to send once this process is told to end")
	f.DurationVar(&c.serve.Shutdown, "shutdown", 10*time.Second, "how long requests may take after that")
	f.Usage = func() {
		fmt.Fprint(stderr, "Usage of accounts:\n")
		f.PrintDefaults()
		fmt.Fprint(stderr, "Environment:\n  DATABASE_URL\n    \tpostgres://…; empty: SQLite in -data\n"+
			"  ETCD_USERNAME, ETCD_PASSWORD\n    \tif etcd knows its users by those, and not by their certificates\n")
	}
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.owner.Takeover = c.owner.ID != ""
	c.database = env("DATABASE_URL")
	c.etcd.user, c.etcd.password = env("ETCD_USERNAME"), env("ETCD_PASSWORD")
	c.etcd.endpoints = strings.FieldsFunc(endpoints, func(r rune) bool { return r == ',' || r == ' ' })

	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if f.NArg() > 0 {
		fault("unexpected argument %q", f.Arg(0))
	}
	if c.database != "" && !strings.HasPrefix(c.database, "postgres://") && !strings.HasPrefix(c.database, "postgresql://") {
		fault("DATABASE_URL: want postgres://…, or nothing for SQLite") // it may hold a password
	}
	if c.database != "" && len(c.etcd.endpoints) == 0 {
		fault("DATABASE_URL without -etcd: a database that several processes share needs a store that they share")
	}
	if c.database == "" && c.data == "" && len(c.etcd.endpoints) > 0 {
		fault("-etcd without DATABASE_URL or -data: each process would keep accounts in a database of its own")
	}
	if (c.etcd.cert == "") != (c.etcd.key == "") {
		fault("-etcd-cert and -etcd-key go together")
	}
	if c.serve.Shutdown <= 0 || c.owner.DrainTimeout <= 0 {
		fault("-shutdown and -drain: want times above 0")
	}
	err := errors.Join(faults...)
	if err != nil {
		fmt.Fprintln(stderr, "accounts:", err)
	}
	return c, err
}

// longestEnd is how long the process takes from SIGTERM to its end at most, and what the platform's grace period has
// to be above: see docs/kubernetes.md for where the figures come from.
func (c config) longestEnd() time.Duration {
	const prepare = 7 * time.Second // in a drain: 5 s for successors to warm up, and 2 s of slack
	return max(prepare+c.owner.DrainTimeout, c.serve.Linger) + c.serve.Shutdown
}

// reachable is where peers reach what listens on l.
func (c config) reachable(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // it is a TCP listener's
	return net.JoinHostPort(c.advertise, port)
}

// directory is -data, or one that tidy removes.
func (c config) directory() (dir string, tidy func(), err error) {
	if c.data != "" {
		return c.data, func() {}, os.MkdirAll(c.data, 0o700)
	}
	if c.database != "" && len(c.etcd.endpoints) > 0 {
		return "", func() {}, nil // nothing is kept here: the file system may be read-only
	}
	dir, err = os.MkdirTemp("", "tenure-accounts-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

func (c config) logger(w io.Writer) *slog.Logger {
	if c.json {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
