package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/examples/internal/child"
	"github.com/tenure-go/tenure/examples/internal/embedded"
	"github.com/tenure-go/tenure/examples/internal/wait"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// story is one run.
type story struct {
	options
	out   io.Writer
	began time.Time
	token uint64 // of this run, for names that meet no other's

	role      role // of every node, but for its name
	brokers   *brokers
	db        *database
	table     *router.Table
	customers [][]string // by shard
	live      []string   // nodes
	fleet     *child.Fleet[report]
	load      *load
	desk      *desk
	fail      context.CancelCauseFunc // ends the run, from anywhere
	undo      []func() error          // the last one first
	produced  chan error              // once all records are
	quiet     func()                  // ends the questions, and waits for them
	evidence  evidence
	findings  *findings

	mu      sync.Mutex        // guards the fields below
	address map[string]string // of nodes
	left    map[string]bool   // those that said so
	waited  int               // records, at most
}

// run is the whole story. When it returns every process has ended and every file and topic is gone.
func (s *story) run(ctx context.Context) (good bool, err error) {
	ctx, s.fail = context.WithCancelCause(ctx)
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w (and then: %w)", cause, err)
		}
		s.fail(nil) // everything that still waits need not any more
		for _, f := range slices.Backward(s.undo) {
			err = errors.Join(err, f())
		}
	}()
	for _, act := range []func(context.Context) error{s.open, s.found, s.work, s.leave, s.crash, s.comeBack, s.finish} {
		if err := act(ctx); err != nil {
			return false, err
		}
	}
	return s.verdict(), nil
}

// later has f called at the end, also if the story breaks off.
func (s *story) later(f func() error) { s.undo = append(s.undo, f) }

func (s *story) say(format string, args ...any) {
	fmt.Fprintf(s.out, "%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// open sets the stage.
func (s *story) open(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tenure-orders-")
	if err != nil {
		return err
	}
	s.later(func() error { return os.RemoveAll(dir) })
	endpoint, where := s.etcd, "etcd at "+s.etcd
	if endpoint == "" {
		e, stop, err := embedded.Start(ctx, filepath.Join(dir, "etcd"))
		if err != nil {
			return err
		}
		s.later(func() error { stop(); return nil })
		endpoint, where = e, "etcd inside this process"
	}
	// Java's producers choose partitions by murmur2, so they could produce here too.
	group := shard.Group{Name: "customers", Shards: s.shards, Hash: shard.Murmur2, Prefix: fmt.Sprintf("/tenure-orders/%x", s.token)}
	s.customers = customersOf(group)
	if s.brokers, err = openBrokers(ctx, s.options.brokers, group); err != nil {
		return err
	}
	s.later(s.brokers.close)
	if s.db, err = openDatabase(filepath.Join(dir, "orders.db")); err != nil {
		return err
	}
	s.later(s.db.close)
	if err := s.db.install(ctx); err != nil {
		return err
	}
	if err := s.follow(ctx, endpoint, group); err != nil {
		return err
	}
	if len(s.options.brokers) > 0 {
		where += ", Kafka at " + strings.Join(s.brokers.addresses, ",")
	} else {
		where += ", and so is Kafka (kfake)"
	}
	s.say("%s", where)
	t := s.brokers.topics
	s.say("topics %s and %s with %d partitions each, like the group's shards, and %s", t.Orders, t.Payments, s.shards, t.Dead)
	s.role = role{
		Founders: s.processes, Etcd: endpoint, Brokers: s.brokers.addresses, Group: group, Topics: t,
		Database: filepath.Join(dir, "orders.db"), Verbose: s.verbose,
	}
	return nil
}

// follow opens the table that says who owns what.
func (s *story) follow(ctx context.Context, endpoint string, g shard.Group) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	s.later(client.Close)
	store := etcdkv.New(client)
	s.later(store.Close)
	first, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if s.table, err = router.Open(first, store, g, nil); err != nil {
		return fmt.Errorf("etcd at %s: %w", endpoint, err)
	}
	s.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := client.Delete(ctx, g.Prefix+"/", clientv3.WithPrefix())
		return err
	})
	s.later(s.table.Close)
	return nil
}

// found starts the nodes.
func (s *story) found(ctx context.Context) error {
	s.address, s.left = make(map[string]string), make(map[string]bool)
	s.desk = newDesk()
	s.later(func() error { s.desk.http.CloseIdleConnections(); return nil })
	s.fleet = child.New[report](roleVariable)
	var heard sync.WaitGroup
	heard.Go(func() {
		for r := range s.fleet.Reports() {
			s.hear(r)
		}
	})
	heard.Go(func() {
		select {
		case err := <-s.fleet.Failed():
			s.fail(err)
		case <-ctx.Done():
		}
	})
	s.later(func() error { s.fleet.Stop(); heard.Wait(); return nil })
	for i := range s.processes {
		if err := s.start(ctx, nodeName(i)); err != nil {
			return err
		}
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	s.say("%s share the shards, each a process of its own", strings.Join(s.live, ", "))
	s.say("ask them yourself: curl http://%s/customers/%s, or /lag", s.reach(s.live[0]), s.customers[0][0])
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

func (s *story) hear(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Address != "" {
		s.address[r.Node] = r.Address
	}
	if r.Left {
		s.left[r.Node] = true
	}
}

// start starts a node, and returns when it listens.
func (s *story) start(ctx context.Context, name string) error {
	r := s.role
	r.Node = name
	if err := s.fleet.Start(name, r); err != nil {
		return err
	}
	err := wait.Until(ctx, 20*time.Second, name+" to say where it listens", func() (bool, string) {
		return s.reach(name) != "", "it says nothing"
	})
	if err != nil {
		return err
	}
	s.live = append(s.live, name)
	s.desk.add(s.reach(name))
	return nil
}

// reach is where a node listens, or "".
func (s *story) reach(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address[name]
}

// gone is a node that nobody is to count on.
func (s *story) gone(name string) {
	s.live = slices.DeleteFunc(s.live, func(n string) bool { return n == name })
	s.desk.remove(s.reach(name))
}

// owned is how many shards each node owns; "" has those without an owner.
func (s *story) owned() map[string]int {
	n := make(map[string]int)
	for _, of := range s.customers {
		if m, _ := s.table.Owner(of[0]); m != nil {
			n[m.ID]++
		} else {
			n[""]++
		}
	}
	return n
}

// settled waits until the live nodes share the shards, evenly.
func (s *story) settled(ctx context.Context) error {
	return wait.Until(ctx, 30*time.Second, strings.Join(s.live, ", ")+" to share the shards", func() (bool, string) {
		n := s.owned()
		for _, name := range s.live {
			if n[name] < s.shards/len(s.live) {
				return false, fmt.Sprint(n)
			}
		}
		return len(n) == len(s.live), fmt.Sprint(n)
	})
}

// post tells a node to do something.
func (s *story) post(ctx context.Context, name, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.reach(name)+path, nil)
	if err != nil {
		return err
	}
	res, err := s.desk.http.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", name, res.Status)
	}
	return nil
}
