package zombie

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/bench/internal/servers"
	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/shard"
)

// tenured is a node. Its writes are sent whatever it thinks of its tenure, under a context that the loss does not end: only what
// the resource says counts here.
type tenured struct {
	store *etcdkv.Store
	group shard.Group
	serve owner.Handler
	read  func(context.Context) (int64, error)
	guard func(ctx context.Context, t *owner.Tenure, balance int64) error

	tenure *owner.Tenure
	exit   func()
	leave  func()
}

func newTenured(s spec) (*tenured, error) {
	client, err := servers.OpenEtcd(s.Addresses.Etcd)
	if err != nil {
		return nil, err
	}
	return &tenured{store: etcdkv.New(client), group: shard.Single(s.Name)}, nil
}

func (h *tenured) acquire(ctx context.Context) (int64, error) {
	node, err := owner.New(h.store, h.group, h.serve, owner.Config{TTL: TTL, Settle: 50 * time.Millisecond})
	if err != nil {
		return 0, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(running) }()
	for {
		entered, exit, err := node.Enter(ctx, "account")
		if err == nil {
			h.exit = exit
			h.tenure, err = owner.From(entered)
			h.leave = func() { cancel(); <-ended }
			if err != nil {
				return 0, err
			}
			return h.read(ctx)
		}
		if _, elsewhere := errors.AsType[*owner.NotOwnerError](err); !elsewhere && !errors.Is(err, owner.ErrBusy) {
			cancel()
			return 0, err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case err := <-ended:
			cancel()
			return 0, fmt.Errorf("zombie: the node ended: %w", err)
		}
	}
}

func (h *tenured) write(ctx context.Context, balance int64) error {
	return h.guard(ctx, h.tenure, balance)
}

func (h *tenured) release(context.Context) error {
	h.exit()
	h.leave()
	return nil
}

// fenced writes to the database through the fence of its kind.
func fenced(ctx context.Context, d *database, s spec) (holder, error) {
	h, err := newTenured(s)
	if err != nil {
		return nil, err
	}
	h.read = func(ctx context.Context) (int64, error) {
		balance, _, err := d.read(ctx, s.Name)
		return balance, err
	}
	if d.pool != nil {
		f, err := pgxfence.New(d.pool, pgxfence.Config{Table: "bench_zombie_fence", Idle: TTL})
		if err != nil {
			return nil, err
		}
		h.serve = f.Serve
		h.guard = func(ctx context.Context, t *owner.Tenure, balance int64) error {
			return f.Tx(ctx, t.Token(), func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, set, s.Name, balance)
				return err
			})
		}
		return h, f.Install(ctx)
	}
	f, err := fence.NewSQL(d.lite, fence.SQLite, fence.SQLConfig{Table: "bench_zombie_fence"})
	if err != nil {
		return nil, err
	}
	h.serve = f.Serve
	h.guard = func(ctx context.Context, t *owner.Tenure, balance int64) error {
		return f.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, set, s.Name, balance)
			return err
		})
	}
	return h, f.Install(ctx)
}

// unfenced is how Tenure must not be used: the lease alone, and a write that carries no token.
func unfenced(d *database, s spec) (holder, error) {
	h, err := newTenured(s)
	if err != nil {
		return nil, err
	}
	h.serve = func(ctx context.Context, t *owner.Tenure) error {
		t.Ready()
		<-ctx.Done()
		return nil
	}
	h.read = func(ctx context.Context) (int64, error) {
		balance, _, err := d.read(ctx, s.Name)
		return balance, err
	}
	h.guard = func(ctx context.Context, _ *owner.Tenure, balance int64) error { return d.set(ctx, s.Name, balance) }
	return h, nil
}

// onEtcd keeps the balance in etcd, and guards each put by the claim.
func onEtcd(s spec) (holder, error) {
	h, err := newTenured(s)
	if err != nil {
		return nil, err
	}
	h.serve = func(ctx context.Context, t *owner.Tenure) error {
		t.Ready()
		<-ctx.Done()
		return nil
	}
	h.read = func(ctx context.Context) (int64, error) {
		balance, _, err := readEtcd(ctx, h.store, s.Name)
		return balance, err
	}
	h.guard = func(ctx context.Context, t *owner.Tenure, balance int64) error {
		return putEtcd(ctx, h.store, s.Name, balance, t.Guard())
	}
	return h, nil
}

// swap is cas alone: what was read is the condition of the write.
type swap struct {
	store *etcdkv.Store
	id    string
	rev   int64
}

func newSwap(s spec) (holder, error) {
	client, err := servers.OpenEtcd(s.Addresses.Etcd)
	if err != nil {
		return nil, err
	}
	return &swap{store: etcdkv.New(client), id: s.Name}, nil
}

func (c *swap) acquire(ctx context.Context) (balance int64, err error) {
	balance, c.rev, err = readEtcd(ctx, c.store, c.id)
	return balance, err
}

func (c *swap) write(ctx context.Context, balance int64) error {
	return putEtcd(ctx, c.store, c.id, balance, cas.AtRev(etcdKey(c.id), c.rev))
}

func (*swap) release(context.Context) error { return nil }

func etcdKey(id string) string { return "/bench/zombie-balance/" + id }

func readEtcd(ctx context.Context, kv cas.KV, id string) (balance, rev int64, err error) {
	return cas.Get[int64](ctx, kv, etcdKey(id))
}

func putEtcd(ctx context.Context, kv cas.KV, id string, balance int64, guard cas.Cond) error {
	_, err := kv.Commit(ctx, cas.Txn{If: []cas.Cond{guard}, Then: []cas.Op{cas.Put(etcdKey(id), []byte(strconv.FormatInt(balance, 10)))}})
	return err
}
