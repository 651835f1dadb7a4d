// Command hello is the program of README.md, with what it needs to run: two nodes of a bank in one process, which
// share a store and a database. It deposits through one of them, shows who owns which account, and leaves.
//
//	go run ./examples/hello                        store in memory
//	go run ./examples/hello -etcd localhost:2379   your etcd
//
// On standard error is the library's log. What happens when a node dies, or wakes up too late, is for
// examples/quickstart to show.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router"
)

func main() {
	endpoints := flag.String("etcd", "", "comma-separated endpoints; empty: a store in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var store cas.Store = memkv.New()
	if *endpoints != "" {
		s, hangUp := dial(strings.Split(*endpoints, ","))
		defer hangUp()
		store = s
	}
	defer store.Close()
	dir := must(os.MkdirTemp("", "tenure-hello"))
	defer os.RemoveAll(dir)
	db := openBank(ctx, filepath.Join(dir, "bank.db"))
	defer db.Close()

	run, leave := context.WithCancel(ctx)
	var nodes sync.WaitGroup
	addrs := []string{freeAddr(), freeAddr()}
	for _, addr := range addrs {
		nodes.Go(func() {
			if err := serve(run, store, db, addr, addr); err != nil {
				log.Print(err)
			}
		})
	}
	deposit(ctx, addrs[0], store, db)
	leave()
	fmt.Println("leaving: shards are handed over, and the servers go on for 5 s (router.ServeConfig.Linger), " +
		"since load balancers still send")
	nodes.Wait()
}

var people = []string{"alice", "bob", "carol", "dave"}

// openBank has an account for each of people, and the fence's tables.
func openBank(ctx context.Context, file string) *sql.DB {
	db := must(sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)"))
	check(must(fence.NewSQL(db, fence.SQLite, fence.SQLConfig{})).Install(ctx))
	must(db.ExecContext(ctx, "CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)"))
	for _, id := range people {
		must(db.ExecContext(ctx, "INSERT INTO account VALUES (?, 0)", id))
	}
	return db
}

// deposit pays 10 into each account, all through the node at addr.
func deposit(ctx context.Context, addr string, store cas.Store, db *sql.DB) {
	table := must(router.Open(ctx, store, Accounts, nil))
	defer table.Close()
	for _, id := range people {
		for !paid(ctx, addr, id) {
			select { // the first second: nodes join, and wait for others that may
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		var balance int
		check(db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = ?", id).Scan(&balance))
		if owner, epoch := table.Owner(id); owner != nil {
			fmt.Printf("%-6s balance %d, shard %02d, owned by the node on %s under epoch %s\n", id, balance, Accounts.Of(id), owner.Address, epoch)
		}
	}
}

// paid reports whether a deposit was made. It tries again only what was certainly not applied.
func paid(ctx context.Context, addr, id string) bool {
	body := strings.NewReader(url.Values{"amount": {"10"}}.Encode())
	req := must(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/accounts/"+id+"/deposits", body))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return false // no server yet
	}
	check(err)
	check(res.Body.Close())
	switch {
	case res.StatusCode == http.StatusOK:
		return true
	case res.Header.Get("Tenure-Outcome") == "not-applied":
		return false
	}
	log.Fatalf("deposit for %s: %s", id, res.Status)
	return false
}

func freeAddr() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().String()
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
