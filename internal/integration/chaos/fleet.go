package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// member is a node as the parent sees it: a process that comes and goes behind proxies that stay.
type member struct {
	id    string
	etcd  [members]*wire
	sql   *wire
	peers *wire // in front of its server; clients go past it

	mu      sync.Mutex // guards the rest
	process *process
	address string // of its server; "" until it has said so
}

func (m *member) at() (*process, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process, m.address
}

// wires are all proxies of m.
func (m *member) wires() []*wire { return append(m.etcd[:], m.sql, m.peers) }

// fleet is the nodes, and the load balancer in front of them.
type fleet struct {
	config  nodeConfig // less what differs between nodes
	dir     string     // of logs
	members [nodes]*member
	hear    func(id string, ev event)
	died    func(error) // a node has ended that was not told to

	http  *http.Client // for health checks
	ready atomic.Pointer[[]*member]
	stop  context.CancelFunc
	check sync.WaitGroup
}

// checkEvery is how often the load balancer asks each node whether it is ready.
const checkEvery = 50 * ms

// idles are the fences' idle times: of the nodes of one run some lose a transaction that is stopped in the middle before
// their lease ends, and some go on with it when they wake.
var idles = [nodes]time.Duration{time.Second, time.Second, 3 * time.Second, 10 * time.Second, 10 * time.Second}

// newFleet makes proxies for all nodes and starts none. Close it, also after an error.
func newFleet(c nodeConfig, dir string, e *etcd, p *postgres, hear func(string, event), died func(error)) (*fleet, error) {
	ctx, stop := context.WithCancel(context.Background())
	f := &fleet{
		config: c, dir: dir, hear: hear, died: died, stop: stop,
		http: &http.Client{Timeout: 200 * ms, Transport: &http.Transport{}},
	}
	f.ready.Store(new([]*member))
	for i := range f.members {
		m := &member{id: nodeID(i)}
		f.members[i] = m
		var err error
		for j, at := range e.endpoints {
			if m.etcd[j], err = newWire(at); err != nil {
				return f, err
			}
		}
		if m.sql, err = newWire(p.url.Host); err != nil {
			return f, err
		}
		if m.peers, err = newWire(""); err != nil {
			return f, err
		}
	}
	f.check.Go(func() { f.balance(ctx) })
	return f, nil
}

// start starts node i, which must not run, and returns at once.
func (f *fleet) start(i int, p *postgres, takeover bool) error {
	m := f.members[i]
	c := f.config
	c.ID, c.Advertise, c.Idle, c.Takeover = m.id, m.peers.address, idles[i], takeover
	c.Postgres = p.via(m.sql.address)
	for _, w := range m.etcd {
		c.Etcd = append(c.Etcd, w.address)
	}
	role, err := json.Marshal(c)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+string(role))
	hear := func(line []byte) {
		var ev event
		if err := json.Unmarshal(line, &ev); err != nil {
			f.died(fmt.Errorf("%s said %q: %w", m.id, line, err))
			return
		}
		if ev.Address != "" {
			m.peers.lead(ev.Address)
			m.mu.Lock()
			m.address = ev.Address
			m.mu.Unlock()
			return
		}
		f.hear(m.id, ev)
	}
	m.mu.Lock()
	m.address = ""
	m.mu.Unlock()
	child, err := start(m.id, cmd, filepath.Join(f.dir, m.id+".log"), hear, f.died)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.process = child
	m.mu.Unlock()
	return nil
}

// balance follows which nodes are ready.
func (f *fleet) balance(ctx context.Context) {
	for {
		var up [nodes]bool
		var asked sync.WaitGroup
		for i, m := range f.members {
			asked.Go(func() { up[i] = f.isReady(ctx, m) })
		}
		asked.Wait()
		var ready []*member
		for i, m := range f.members {
			if up[i] {
				ready = append(ready, m)
			}
		}
		f.ready.Store(&ready)
		if !pause(ctx, checkEvery) {
			return
		}
	}
}

func (f *fleet) isReady(ctx context.Context, m *member) bool {
	_, address := m.at()
	if address == "" {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := f.http.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// pick is a node that was ready a moment ago, or nil.
func (f *fleet) pick() *member {
	ready := *f.ready.Load()
	if len(ready) == 0 {
		return nil
	}
	return ready[rand.IntN(len(ready))]
}

// close kills all nodes and waits for all that was started.
func (f *fleet) close() {
	f.stop()
	for _, m := range f.members {
		if m == nil {
			continue
		}
		if p, _ := m.at(); p != nil {
			p.kill()
		}
		for _, w := range m.wires() {
			if w != nil {
				w.close()
			}
		}
	}
	f.check.Wait()
	f.http.CloseIdleConnections()
}
