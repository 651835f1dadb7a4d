package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenure-go/tenure/cas/memkv"
	pb "github.com/tenure-go/tenure/examples/accounts/accountspb"
	"github.com/tenure-go/tenure/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// town is a few nodes in this process, each with servers of its own, on one store and one database in memory.
type town struct {
	store *memkv.Server
	vault vault
	nodes []*resident
}

type resident struct {
	http, grpc, debug string
	calls             pb.AccountsClient
	conn              *grpc.ClientConn
	leave             func() // in good order; returns when it is gone
}

func newTown(t *testing.T, nodes int) *town {
	t.Helper()
	v, err := openSQLite("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.close() })
	if err := v.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &town{store: memkv.NewServer(memkv.Config{}), vault: v}
	for range nodes {
		w.settle(t)
	}
	return w
}

// settle runs one more node, as the program does, until the test ends or it is told to leave.
func (w *town) settle(t *testing.T) *resident {
	t.Helper()
	store, v := w.store.Client(), w.vault
	c, err := parse([]string{
		"-http=127.0.0.1:0", "-grpc=127.0.0.1:0", "-debug=127.0.0.1:0", "-ttl=2s", "-linger=-1ms",
	}, func(string) string { return "" }, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	c.owner.Settle = 50 * time.Millisecond
	log := &addressLog{said: make(chan map[string]string, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, c, store, v, slog.New(log)) }()
	r := new(resident)
	r.leave = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = store.Close()
	})
	t.Cleanup(r.leave)
	select {
	case at := <-log.said:
		r.http, r.grpc, r.debug = "http://"+at["http"], at["grpc"], "http://"+at["debug"]
	case err := <-ended:
		ended <- nil
		t.Fatalf("serve: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the node does not listen after 30 s")
	}
	if r.conn, err = grpc.NewClient("passthrough:///"+r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	r.calls = pb.NewAccountsClient(r.conn)
	w.nodes = append(w.nodes, r)
	return r
}

// ownerOf is the node that owns the account, and one that doesn't, once all nodes have their share.
func (w *town) ownerOf(t *testing.T, account string) (owner, other *resident) {
	t.Helper()
	store := w.store.Client()
	defer store.Close()
	table, err := router.Open(t.Context(), store, Group, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	of := func(key string) *resident {
		m, _ := table.Owner(key)
		for _, n := range w.nodes {
			if m != nil && "http://"+m.Address == n.http {
				return n
			}
		}
		return nil
	}
	settled := func() bool {
		shares := make(map[*resident]bool)
		for i := range 16 * Group.Shards {
			shares[of(fmt.Sprint(i))] = true
		}
		return len(shares) == len(w.nodes) && !shares[nil]
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); !settled(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not every node has a share after 30 s")
		}
	}
	owner = of(account)
	for _, n := range w.nodes {
		if n != owner {
			return owner, n
		}
	}
	t.Fatal("there is only one node")
	return nil, nil
}

// addressLog is a slog.Handler that waits for the line which says where a node listens.
type addressLog struct{ said chan map[string]string }

func (l *addressLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *addressLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "listening" {
		return nil
	}
	at := make(map[string]string)
	r.Attrs(func(a slog.Attr) bool {
		at[a.Key] = a.Value.String()
		return true
	})
	l.said <- at
	return nil
}

func (l *addressLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *addressLog) WithGroup(string) slog.Handler      { return l }
