package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/examples/internal/embedded"
	"github.com/tenure-go/tenure/examples/internal/wait"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// founders is how many nodes the bank opens with.
const founders = 3

// story is one run.
type story struct {
	options
	report *report
	stderr io.Writer

	group    shard.Group
	dbPath   string
	accounts accounts
	etcd     *clientv3.Client
	store    cas.Store
	table    *router.Table
	observer *observer
	cluster  *cluster
	fail     context.CancelCauseFunc // ends the run, from anywhere
	client   *client
	ledger   ledger
	load     *load

	floor    time.Duration
	gaps     gaps
	toServed time.Duration // from the kill
	expired  time.Duration // from the lease's end
	audit    audit

	undo []func() error // the last one first

	mu     sync.Mutex // guards stales
	stales []stale
	asleep chan string // a node that stops itself says so
}

// run is the whole story. When it returns every process has ended and every file is gone. An error is a run that
// could not be finished; one that was is judged by the summary.
func (s *story) run(ctx context.Context) (sum summary, err error) {
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
	for _, act := range []func(context.Context) error{s.open, s.found, s.measureFloor, s.join, s.leave, s.crash, s.haunt} {
		if err := act(ctx); err != nil {
			return summary{}, err
		}
	}
	return s.close(ctx)
}

// later has f called at the end, also if the story breaks off.
func (s *story) later(f func() error) { s.undo = append(s.undo, f) }

// open sets the stage.
func (s *story) open(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tenure-quickstart-")
	if err != nil {
		return err
	}
	s.later(func() error { return os.RemoveAll(dir) })

	endpoints, where := s.endpoints(), s.options.etcd
	if len(endpoints) == 0 {
		endpoint, stop, err := embedded.Start(ctx, filepath.Join(dir, "etcd"))
		if err != nil {
			return err
		}
		s.later(func() error { stop(); return nil })
		endpoints, where = []string{endpoint}, "inside this process, synced to disk"
	}
	if s.etcd, err = dial(endpoints); err != nil {
		return err
	}
	s.later(s.etcd.Close)
	s.store = etcdkv.New(s.etcd)
	s.later(s.store.Close)

	// Each run has a prefix of its own, so that it meets nothing in your etcd and leaves nothing there.
	prefix := "/tenure-quickstart/" + strings.ToLower(rand.Text()[:10])
	s.group = shard.Group{Name: "accounts", Shards: s.shards, Prefix: prefix}
	s.dbPath = filepath.Join(dir, "bank.db")
	s.accounts = openAccounts(s.group)
	if err := createBank(ctx, s.dbPath, s.group, s.accounts.all()); err != nil {
		return err
	}

	first, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if s.table, err = router.Open(first, s.store, s.group, nil); err != nil {
		return fmt.Errorf("etcd at %s: %w", strings.Join(endpoints, ","), err)
	}
	s.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := s.etcd.Delete(ctx, s.group.Prefix+"/", clientv3.WithPrefix())
		return err
	})
	s.later(s.table.Close)
	s.gaps.story, s.gaps.moves = s, make(map[int]*shut)
	s.later(func() error { s.gaps.done.Wait(); return nil })
	if s.observer, err = observe(first, s.store, s.group, s.fail, func(m move) { s.gaps.begin(ctx, m) }); err != nil {
		return err
	}
	s.later(func() error { s.observer.close(); return nil })

	s.asleep = make(chan string, 1)
	s.cluster = newCluster(nodeConfig{
		Etcd: endpoints, Group: s.group, DB: s.dbPath, Fenced: !s.noFence, Verbose: s.verbose,
	}, s.stderr, s.fail, s.hear)
	s.later(func() error { s.cluster.close(); return nil })
	s.client = newClient(s.cluster, &s.ledger)
	s.later(func() error { s.client.http.CloseIdleConnections(); return nil })

	s.report.plain("A bank: %d accounts in %d shards, one SQLite file; etcd %s.\n", len(s.accounts.all()), s.shards, where)
	s.report.plain("A shard has one owner at a time, under an epoch that only grows: 0:7 is revision 7 of etcd, in lineage 0 " +
		"(1 after a restore).\n")
	if s.noFence {
		s.report.plain("The fence is OFF: the database takes every write, whatever its epoch.\n\n")
	} else {
		s.report.plain("Each new owner seals the shard in the database for its epoch; writes under another are refused.\n\n")
	}
	return nil
}

// found starts the first nodes, one after another so that their ages are in order, and the clients.
func (s *story) found(ctx context.Context) error {
	ids := make([]string, founders)
	for i := range ids {
		ids[i] = nodeID(i + 1)
		if err := s.cluster.start(ctx, ids[i]); err != nil {
			return err
		}
		err := wait.Until(ctx, 20*time.Second, ids[i]+" to join", func() (bool, string) {
			return s.observer.isMember(ids[i]), "it has no member key"
		})
		if err != nil {
			return err
		}
	}
	s.report.say("%s are up, each a process of its own", strings.Join(ids, ", "))
	if err := s.settled(ctx, ids...); err != nil {
		return err
	}
	s.report.say("they share the shards: %s", s.shares())
	s.load = startLoad(ctx, s.clients, s.client, s.accounts.traded, s.fail)
	s.later(func() error { s.load.stop(); return nil })
	s.report.say("%d clients deposit and transfer, each through any node", s.clients)
	return nil
}

func nodeID(n int) string { return fmt.Sprintf("node-%d", n) }

// hear takes what nodes say.
func (s *story) hear(id string, ev event) {
	if ev.Asleep {
		select {
		case s.asleep <- id:
		default: // nobody expects that; the act that waits for one begins with an empty channel
		}
	}
	if ev.Drain != nil {
		s.gaps.closed(ev.Drain.Shard, ev.Drain.At)
	}
	if ev.Stale != nil {
		ev.Stale.Node = id
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stales = append(s.stales, *ev.Stale)
	}
}

// owners counts shards by the ID of their owner; "" has those without.
func (s *story) owners() map[string]int {
	n := make(map[string]int)
	for _, account := range s.accounts.probes {
		if m, _ := s.table.Owner(account); m != nil {
			n[m.ID]++
		} else {
			n[""]++
		}
	}
	return n
}

// shares is owners for people.
func (s *story) shares() string {
	n := s.owners()
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(n)) {
		who := id
		if id == "" {
			who = "nobody"
		}
		parts = append(parts, fmt.Sprintf("%s %d", who, n[id]))
	}
	return strings.Join(parts, ", ")
}

// settled waits until those nodes, all ready, share the shards evenly and nothing is left to move.
func (s *story) settled(ctx context.Context, ids ...string) error {
	least, most := s.shards/len(ids), (s.shards+len(ids)-1)/len(ids)
	return wait.Until(ctx, 30*time.Second, strings.Join(ids, ", ")+" to share the shards evenly", func() (bool, string) {
		n, moving := s.owners(), s.observer.moving()
		ready := len(*s.cluster.ready.Load())
		even := len(n) == len(ids)
		for _, id := range ids {
			even = even && n[id] >= least && n[id] <= most
		}
		return even && moving == 0 && ready == len(ids), fmt.Sprintf("%s; %d on the move, %d nodes ready", s.shares(), moving, ready)
	})
}

// pause lets the clients work for a while.
func (s *story) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
