package writer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
	"github.com/tenure-go/tenure/internal/integration/sqltest"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

var group = shard.Group{Name: "journal", Shards: 1}

const (
	ownerEnv  = "TENURE_TEST_WRITER" // server, DSN of SQLite, table, etcd's endpoint and number, in the process that is an owner
	producers = 8
)

// server is a database that TestKill runs on. path is SQLite's file.
func server(t testing.TB, name, path string) sqltest.Server {
	t.Helper()
	switch name {
	case "postgres":
		return sqltest.Postgres(t)
	case "mariadb":
		return sqltest.MariaDB(t)
	}
	return sqltest.Server{Dialect: fence.SQLite, Open: func(t testing.TB) *sql.DB {
		t.Helper()
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
		if err != nil {
			t.Fatal(err)
		}
		return db
	}}
}

// TestBeOwner is what TestKill starts, and kills: a node, and producers that call it. What they are told goes to
// stdout, a line each, at once: ack and where it is, no, or withdrawn. It ends in good order when stdin does.
func TestBeOwner(t *testing.T) {
	args := strings.Split(os.Getenv(ownerEnv), "|")
	if len(args) != 5 {
		t.Skip("TestKill starts this one")
	}
	process, err := strconv.Atoi(args[4])
	if err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, server(t, args[0], args[1]), args[2])
	defer j.db.Close()
	w := writer.New(j.open, writer.Config{MaxBatch: 64})
	store := etcdkv.New(etcdtest.Dial(t, clientv3.Config{Endpoints: []string{args[3]}}))
	defer store.Close()
	node, err := owner.New(store, group, w.Serve, owner.Config{ID: "owner-" + args[4], TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() { produce(ctx, w, node, process, p) })
	}
	if err := node.Run(ctx); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// produce sends one command after another, and one again as long as its node is not the owner.
func produce(ctx context.Context, w *writer.Writer[entry, int64], node *owner.Node, process, p int) {
	for n := 1; ctx.Err() == nil; n++ {
		e := entry{process: process, producer: p, n: n}
		for ctx.Err() == nil {
			err := node.Do(ctx, "journal", func(ctx context.Context, t *owner.Tenure) error {
				at, err := w.Do(ctx, t, e)
				if err == nil {
					fmt.Printf("ack %d %d %d\n", p, n, at)
				}
				return err
			})
			if err == nil {
				break
			}
			if cas.OutcomeOf(err) != cas.NotApplied {
				break // who knows
			}
			word := "no"
			if ctx.Err() != nil {
				word = "withdrawn"
			} else if _, elsewhere := errors.AsType[*owner.NotOwnerError](err); elsewhere || errors.Is(err, owner.ErrBusy) || errors.Is(err, writer.ErrEnded) {
				word = "later"
			}
			if word != "later" {
				fmt.Printf("%s %d %d 0\n", word, p, n)
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}
