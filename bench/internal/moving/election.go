package moving

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// elected has a leader for each part. It has nobody who decides how many parts each member is to have, so here that is fixed: b is
// to have the upper half, and a candidate of b's comes first there since a resigns when it is told that b has come.
type elected struct {
	counters
	members map[string]*electedMember
	retired []*electedMember
	leaders [Parts]atomic.Pointer[string] // addresses, as clients know them
	stop    context.CancelFunc
	clients sync.WaitGroup
}

type electedMember struct {
	name    string
	client  *clientv3.Client
	session *concurrency.Session
	server  *http.Server
	addr    string
	parts   [Parts]leading
	work    sync.WaitGroup
}

// leading is one part at one member.
type leading struct {
	owned
	election *concurrency.Election
	campaign context.CancelFunc
	ended    chan struct{}
}

func openElection(_ context.Context, c counters) (served, error) {
	e := &elected{counters: c, members: map[string]*electedMember{}}
	watching, stop := context.WithCancel(context.Background())
	e.stop = stop
	session, err := concurrency.NewSession(c.client)
	if err != nil {
		stop()
		return nil, err
	}
	for part := range Parts { // a client that follows the leaders
		e.clients.Go(func() {
			for reply := range concurrency.NewElection(session, e.name(part)).Observe(watching) {
				if len(reply.Kvs) > 0 {
					addr := string(reply.Kvs[0].Value)
					e.leaders[part].Store(&addr)
				}
			}
		})
	}
	e.clients.Go(func() {
		<-watching.Done()
		_ = session.Close()
	})
	return e, nil
}

func (e *elected) name(part int) string { return e.prefix + "election/" + e.keys[part] }

func (e *elected) target(part int) string {
	if addr := e.leaders[part].Load(); addr != nil {
		return *addr
	}
	return ""
}

func (e *elected) join(ctx context.Context, name string) (err error) {
	m := &electedMember{name: name}
	if m.client, err = dial(e.endpoints); err != nil {
		return err
	}
	if m.session, err = concurrency.NewSession(m.client, concurrency.WithTTL(10)); err != nil {
		return errors.Join(err, m.client.Close())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, m.session.Close(), m.client.Close())
	}
	m.addr = l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /parts/{key}", func(w http.ResponseWriter, r *http.Request) { e.handle(w, r, m) })
	m.server = &http.Server{Handler: mux}
	m.work.Go(func() { _ = m.server.Serve(l) })
	e.members[name] = m
	for part := range Parts {
		if name == "a" || part >= Parts/2 {
			e.campaign(m, part)
		}
	}
	if a := e.members["a"]; a != nil && name == "b" { // a makes room, and stands by
		var all sync.WaitGroup
		for part := Parts / 2; part < Parts; part++ {
			all.Go(func() {
				if e.contested(ctx, part) {
					a.resign(part)
					e.campaign(a, part)
				}
			})
		}
		all.Wait()
	}
	return ctx.Err()
}

// contested returns once somebody waits for part: whoever resigned before would be the next leader itself.
func (e *elected) contested(ctx context.Context, part int) bool {
	return until(ctx, "b stands for election", func() bool {
		reply, err := e.client.Get(ctx, e.name(part)+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && reply.Count > 1
	}) == nil
}

// campaign has m lead part as soon as it can.
func (e *elected) campaign(m *electedMember, part int) {
	l := &m.parts[part]
	ctx, cancel := context.WithCancel(context.Background())
	l.election = concurrency.NewElection(m.session, e.name(part))
	l.campaign, l.ended = cancel, make(chan struct{})
	m.work.Go(func() {
		defer close(l.ended)
		if l.election.Campaign(ctx, m.addr) == nil {
			_ = l.begin(ctx, e.counters, part)
		}
	})
}

// resign finishes what has begun, takes nothing more, and lets the next one in.
func (m *electedMember) resign(part int) {
	l := &m.parts[part]
	if l.election == nil {
		return
	}
	l.campaign()
	<-l.ended
	l.end()
	_ = l.election.Resign(context.Background())
}

func (e *elected) handle(w http.ResponseWriter, r *http.Request, m *electedMember) {
	part, err := e.part(r.PathValue("key"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	l := &m.parts[part]
	err = l.add(func(value string) error {
		reply, err := m.client.Txn(r.Context()).If(clientv3.Compare(clientv3.CreateRevision(l.election.Key()), "=", l.election.Rev())).
			Then(clientv3.OpPut(e.key(part), value)).Commit()
		if err == nil && !reply.Succeeded {
			err = errFenced
		}
		return err
	})
	switch {
	case err == nil:
		_, _ = w.Write([]byte(m.name))
	case errors.Is(err, errClosed):
		http.Error(w, err.Error(), http.StatusMisdirectedRequest)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (e *elected) leave(name string) error {
	m := e.members[name]
	if m == nil {
		return nil
	}
	delete(e.members, name)
	var all sync.WaitGroup
	for part := range Parts {
		all.Go(func() { m.resign(part) })
	}
	all.Wait()
	e.retired = append(e.retired, m) // goes on refusing: a client may be on its way
	return errors.Join(m.session.Close(), m.client.Close())
}

func (e *elected) close() {
	_ = e.leave("b")
	_ = e.leave("a")
	e.stop()
	e.clients.Wait()
	for _, m := range e.retired {
		_ = m.server.Shutdown(context.Background())
		m.work.Wait()
	}
}
