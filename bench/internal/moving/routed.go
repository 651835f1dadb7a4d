package moving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// routed is nodes of Tenure behind its router.
type routed struct {
	counters
	group   shard.Group
	entry   string // where clients send: "a", which stays
	members map[string]*routedMember
}

type routedMember struct {
	client *clientv3.Client
	store  *etcdkv.Store
	table  *router.Table
	leave  context.CancelFunc
	done   chan error

	mu    sync.Mutex // guards parts
	parts map[shard.Token]*owned
}

func openRouted(_ context.Context, c counters) (served, error) {
	entry, err := freeAddress()
	return &routed{counters: c, group: shard.Group{Name: c.name, Shards: Parts}, entry: entry, members: map[string]*routedMember{}}, err
}

// freeAddress is one that nobody listens on at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("moving: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (r *routed) target(int) string { return r.entry }

func (r *routed) join(ctx context.Context, name string) (err error) {
	addr := r.entry
	if name != "a" {
		if addr, err = freeAddress(); err != nil {
			return err
		}
	}
	m := &routedMember{done: make(chan error, 1), parts: map[shard.Token]*owned{}}
	if m.client, err = dial(r.endpoints); err != nil {
		return err
	}
	m.store = etcdkv.New(m.client)
	node, err := owner.New(m.store, r.group, func(ctx context.Context, t *owner.Tenure) error { return r.serve(ctx, m, t) },
		owner.Config{Address: addr, Settle: 50 * time.Millisecond})
	if err != nil {
		return errors.Join(err, m.hangUp())
	}
	if m.table, err = router.Open(ctx, m.store, r.group, nil); err != nil {
		return errors.Join(err, m.hangUp())
	}
	web, err := router.NewHTTP(m.table, node, router.HTTPConfig{})
	if err != nil {
		return errors.Join(err, m.hangUp())
	}
	mux := http.NewServeMux()
	mux.Handle("POST /parts/{key}", web.Route(router.PathValue("key"), func(w http.ResponseWriter, q *http.Request, t *owner.Tenure) {
		err := r.add(q.Context(), m, t)
		if err != nil {
			router.WriteError(w, q, err)
			return
		}
		_, _ = w.Write([]byte(name))
	}))
	running, leave := context.WithCancel(context.Background())
	m.leave = leave
	r.members[name] = m
	go func() {
		// Nobody sends to a node that leaves: clients have another, so nothing lingers.
		m.done <- router.Serve(running, node, router.ServeConfig{Linger: -1}, router.On(addr, &http.Server{Handler: mux}))
	}()
	return nil
}

func (r *routed) serve(ctx context.Context, m *routedMember, t *owner.Tenure) error {
	o := &owned{}
	if err := o.begin(ctx, r.counters, t.Token().Shard); err != nil {
		return err
	}
	m.mu.Lock()
	m.parts[t.Token()] = o
	m.mu.Unlock()
	t.Ready()
	<-ctx.Done()
	o.end()
	m.mu.Lock()
	delete(m.parts, t.Token())
	m.mu.Unlock()
	return nil
}

func (r *routed) add(ctx context.Context, m *routedMember, t *owner.Tenure) error {
	m.mu.Lock()
	o := m.parts[t.Token()]
	m.mu.Unlock()
	if o == nil {
		return errClosed
	}
	return o.add(func(value string) error {
		_, err := m.store.Commit(ctx, cas.Txn{If: []cas.Cond{t.Guard()}, Then: []cas.Op{cas.Put(r.key(t.Token().Shard), []byte(value))}})
		return err
	})
}

func (r *routed) leave(name string) error {
	m := r.members[name]
	if m == nil {
		return nil
	}
	delete(r.members, name)
	m.leave()
	return errors.Join(<-m.done, m.hangUp())
}

func (m *routedMember) hangUp() error {
	if m.table != nil {
		m.table.Close()
	}
	return errors.Join(m.store.Close(), m.client.Close())
}

func (r *routed) close() {
	_ = r.leave("b")
	_ = r.leave("a")
	// The group's own keys.
	g := r.group.WithDefaults()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _ = r.client.Delete(ctx, g.Prefix+"/"+g.Name+"/", clientv3.WithPrefix())
}
