package grpcrouter_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

// A node whose view is behind the sender's waits until it has seen why the call came to it: one try is enough.
func TestNodeBehindWaits(t *testing.T) {
	server := memkv.NewServer(memkv.Config{})
	quick := server.Client() // the tables'
	t.Cleanup(func() { quick.Close() })
	var nodes []*owner.Node
	var slow []*memkv.Client
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	conns := make(map[string]grpc.ClientConnInterface)
	var tables []*router.Table // of the clients, which try once and so must know whom to ask
	for _, id := range []string{"a", "b"} {
		l := listen(t)
		store := server.Client()
		t.Cleanup(func() { running.Wait(); store.Close() })
		node, err := owner.New(store, accounts, ready, owner.Config{
			ID: id, Address: l.Addr().String(), TTL: 5 * time.Second, Settle: 50 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		table, err := router.Open(t.Context(), quick, accounts, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { table.Close() })
		tables = append(tables, table)
		c, err := grpcrouter.NewClient(table, byKey, grpcrouter.Config{Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		serve(t, l, &echo{t: t, id: id, applied: make(map[string]int)}, grpcrouter.Options(node, byKey, c)...)
		running.Go(func() {
			if err := node.Run(ctx); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
		wait(t, id+" joined", func() bool { return node.Ready() == nil })
		nodes, slow = append(nodes, node), append(slow, store)
		conns["through "+id], conns["client"] = dial(t, l.Addr().String()), c
	}
	t.Cleanup(func() { stop(); running.Wait() })
	admin := owner.NewAdmin(quick, accounts)
	owned := func(id string) func() bool {
		return func() bool {
			return !slices.ContainsFunc(tables, func(table *router.Table) bool {
				m, _ := table.Owner("alice")
				return m == nil || m.ID != id
			})
		}
	}
	for way, conn := range conns {
		for _, kind := range []string{"unary", "both"} {
			if err := admin.Pin(t.Context(), accounts.Of("alice"), "a"); err != nil {
				t.Fatal(err)
			}
			wait(t, "a owns", owned("a"))
			wait(t, "a serves", func() bool {
				return nodes[0].Do(t.Context(), "alice", func(context.Context, *owner.Tenure) error { return nil }) == nil
			})
			slow[1].Lag(300 * time.Millisecond)
			if err := admin.Pin(t.Context(), accounts.Of("alice"), "b"); err != nil {
				t.Fatal(err)
			}
			wait(t, "b owns", owned("b"))
			if got, err := kinds[kind](t.Context(), echopb.NewEchoClient(conn), "alice"); got != "b" || err != nil {
				t.Errorf("%s of %s: ran at %q, %v; want b", kind, way, got, err)
			}
			slow[1].Lag(0)
		}
	}
}
