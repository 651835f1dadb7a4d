package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

var bank = shard.Group{Name: "bank", Shards: 64}

// fleet is nodes on a real etcd, each with a client of its own.
type fleet struct {
	etcd  *etcdtest.Server
	admin *owner.Admin
	nodes []*owner.Node
	stop  []func() error // ends a node in good order; may be called again
	gone  map[int]bool   // nodes whose connection the test has cut for good: they can't leave in good order
}

func startFleet(tb testing.TB, e *etcdtest.Server, n int, h owner.Handler, c owner.Config) *fleet {
	tb.Helper()
	f := &fleet{etcd: e, admin: owner.NewAdmin(etcdkv.New(e.Client(tb)), bank), gone: make(map[int]bool)}
	for i := range n {
		f.start(tb, i, h, c)
	}
	f.settle(tb, n)
	return f
}

func (f *fleet) start(tb testing.TB, i int, h owner.Handler, c owner.Config) *clientv3.Client {
	tb.Helper()
	client := f.etcd.Client(tb)
	store := etcdkv.New(client)
	c.ID = fmt.Sprintf("node-%d", i)
	if c.TTL == 0 {
		c.TTL = 2 * time.Second
	}
	node, err := owner.New(store, bank, h, c)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-ended, store.Close())
	})
	tb.Cleanup(func() {
		if err := stop(); err != nil && !f.gone[i] {
			tb.Errorf("%s: %v", c.ID, err)
		}
	})
	f.nodes = append(f.nodes, node)
	f.stop = append(f.stop, stop)
	return client
}

// settle waits until n nodes serve all shards among them.
func (f *fleet) settle(tb testing.TB, n int) {
	tb.Helper()
	await(tb, fmt.Sprintf("%d nodes to serve %d shards", n, bank.Shards), func() bool {
		total, busy := 0, 0
		for _, node := range f.nodes {
			ready := served(node)
			total += len(ready)
			if len(ready) > 0 {
				busy++
			}
		}
		return total == bank.Shards && busy == n
	})
}

// served are the epochs of the shards that node admits requests for.
func served(node *owner.Node) map[int]shard.Epoch {
	ready := make(map[int]shard.Epoch)
	for _, ev := range node.Status().Shards {
		if ev.State == owner.Ready {
			ready[ev.Token.Shard] = ev.Token.Epoch
		}
	}
	return ready
}

// await polls a condition for up to a minute.
func await(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("waited a minute for %s", what)
		}
	}
}

func serve(ctx context.Context, t *owner.Tenure) error {
	t.Ready()
	<-ctx.Done()
	return nil
}

// do runs fn at key's owner, wherever that is, as a router would.
func (f *fleet) do(ctx context.Context, key string, fn func(context.Context, *owner.Tenure) error) error {
	at := 0
	for {
		err := f.nodes[at].Do(ctx, key, fn)
		no, moved := errors.AsType[*owner.NotOwnerError](err)
		switch {
		case !moved:
			return err
		case no.Owner.ID == "":
			at = (at + 1) % len(f.nodes)
		default:
			if _, err := fmt.Sscanf(no.Owner.ID, "node-%d", &at); err != nil {
				return err
			}
			ctx = owner.AtLeast(ctx, no.Epoch)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// TestNodesOnEtcd: join, move, leave and an expired lease on a real etcd; each tenure's guard is a condition that holds
// exactly while its claim stands.
func TestNodesOnEtcd(t *testing.T) {
	f := startFleet(t, etcdtest.Start(t, etcdtest.Config{}), 3, serve, owner.Config{})
	ctx := t.Context()
	store := etcdkv.New(f.etcd.Client(t))
	defer store.Close()

	var first *owner.Tenure
	write := func(tn *owner.Tenure) error {
		_, err := store.Commit(ctx, cas.Txn{If: []cas.Cond{tn.Guard()}, Then: []cas.Op{cas.Put("/data/alice", []byte("1"))}})
		return err
	}
	err := f.do(ctx, "alice", func(_ context.Context, tn *owner.Tenure) error {
		first = tn
		return write(tn)
	})
	if err != nil {
		t.Fatalf("a write under the tenure's guard: %v", err)
	}
	from := 0
	for i, n := range f.nodes {
		if served(n)[bank.Of("alice")] != 0 {
			from = i
		}
	}
	if err := f.admin.Pin(ctx, bank.Of("alice"), fmt.Sprintf("node-%d", (from+1)%3)); err != nil {
		t.Fatal(err)
	}
	await(t, "alice to move", func() bool { return served(f.nodes[(from+1)%3])[bank.Of("alice")] != 0 })
	if _, ok := errors.AsType[*cas.ConflictError](write(first)); !ok {
		t.Error("I6: a write under the guard of a tenure that was handed over: want a conflict")
	}
	if err := f.stop[from](); err != nil {
		t.Errorf("leaving: %v", err)
	}
	f.nodes = append(f.nodes[:from:from], f.nodes[from+1:]...)
	f.settle(t, 2)
}

// TestCrashOnEtcd: the lease of a node that went silent expires, and the others serve all.
func TestCrashOnEtcd(t *testing.T) {
	f := startFleet(t, etcdtest.Start(t, etcdtest.Config{}), 2, serve, owner.Config{})
	client := f.start(t, 2, serve, owner.Config{})
	f.settle(t, 3)
	before := served(f.nodes[2])
	f.gone[2] = true
	client.Close() // silence, without a word to the server
	f.nodes = f.nodes[:2]
	f.settle(t, 2)
	for s, old := range before {
		for _, n := range f.nodes {
			if now, ok := served(n)[s]; ok && now <= old {
				t.Errorf("I2: epoch of shard %d: got %v after %v", s, now, old)
			}
		}
	}
}
