package zombie

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/bench/internal/servers"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/dialect"
)

// Stage is where trials take place. Make it with NewStage.
type Stage struct {
	addresses servers.Addresses
	sqlite    string
	run       string // tells this run's topics and groups from another's
	database  *database
	store     *etcdkv.Store
	close     []func()
}

// NewStage prepares the balances' table. SQLite's file is under dir.
func NewStage(ctx context.Context, dir string, a servers.Addresses) (*Stage, error) {
	s := &Stage{addresses: a, sqlite: filepath.Join(dir, "zombie.db"), run: strconv.FormatInt(time.Now().UnixMilli(), 36)}
	d, err := openDatabase(ctx, spec{Addresses: a, SQLite: s.sqlite})
	if err != nil {
		return nil, err
	}
	s.database = d
	s.close = append(s.close, d.close)
	client, err := servers.OpenEtcd(a.Etcd)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.store = etcdkv.New(client)
	s.close = append(s.close, func() { _ = s.store.Close(); _ = client.Close() })
	if err := d.create(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("zombie: create table: %w", err)
	}
	return s, nil
}

// Close drops what NewStage has made.
func (s *Stage) Close() {
	of := dialect.SQLite
	if s.database.pool != nil {
		of = dialect.Postgres
	}
	for _, stmt := range append(dialect.NewFence(of, "bench_zombie_fence").Drop, "DROP TABLE IF EXISTS "+table) {
		_, _ = s.database.exec(context.Background(), stmt)
	}
	for _, f := range s.close {
		f()
	}
}

// Outcome is what one trial showed.
type Outcome struct {
	Stale   bool          // a write of a replaced holder was admitted
	Blocked bool          // the second got in only once the first went on
	Told    string        // what the first was told of its late write: "ok", or the error
	Dark    time.Duration // from the first one's end to the second one's acknowledged write
}

// pair is the two processes of a trial.
type pair struct {
	first, second *process
	topic         func() // drops it; nil: none
}

func (s *Stage) pair(ctx context.Context, k Kind, name string) (p pair, err error) {
	if err := s.database.start(ctx, name); err != nil {
		return pair{}, err
	}
	if k.topic {
		drop, err := fill(ctx, s.addresses.Kafka, topicOf(s.run, name))
		if err != nil {
			return pair{}, err
		}
		p.topic = drop
	}
	sp := spec{Kind: k.Name, Name: name, Run: s.run, Addresses: s.addresses, SQLite: s.sqlite}
	for _, child := range []**process{&p.first, &p.second} {
		if *child, err = spawn(sp); err != nil {
			p.end()
			return pair{}, err
		}
	}
	for _, child := range []*process{p.first, p.second} {
		if _, err := child.answer(ctx, time.Minute); err != nil {
			p.end()
			return pair{}, err
		}
	}
	if balance, err := p.first.ask(ctx, "acquire", time.Minute); err != nil || balance != "0" {
		p.end()
		return pair{}, fmt.Errorf("zombie: first acquire: balance %q: %w", balance, errors.Join(err))
	}
	return p, nil
}

func (p pair) end() {
	for _, child := range []*process{p.first, p.second} {
		if child != nil {
			child.end()
		}
	}
	if p.topic != nil {
		p.topic()
	}
}

func (s *Stage) balance(ctx context.Context, k Kind, name string) (balance int64, err error) {
	if k.onEtcd {
		balance, _, err = readEtcd(ctx, s.store, name)
		return balance, err
	}
	balance, _, err = s.database.read(ctx, name)
	return balance, err
}

// Pause stops the first holder for longer than its TTL, lets a second one write, and lets the first go on.
func (s *Stage) Pause(ctx context.Context, k Kind, name string) (o Outcome, err error) {
	p, err := s.pair(ctx, k, name)
	if err != nil {
		return o, err
	}
	defer p.end()
	if err := p.first.stop(); err != nil {
		return o, err
	}
	stopped := time.Now()
	if err := p.first.send("write 1"); err != nil { // read when it goes on
		return o, err
	}
	_, err = p.second.ask(ctx, "acquire", Patience*k.TTL)
	if errors.Is(err, errSlow) {
		o.Blocked = true
	} else if err == nil {
		_, err = p.second.ask(ctx, "write 100", time.Minute)
		o.Dark = time.Since(stopped)
	}
	if err != nil && !o.Blocked {
		return o, fmt.Errorf("zombie: second: %w", err)
	}
	if err := p.first.resume(); err != nil {
		return o, err
	}
	if o.Told, err = p.first.answer(ctx, time.Minute); err != nil {
		o.Told = err.Error()
	}
	if o.Blocked {
		return o, nil // nothing was there to be overwritten
	}
	balance, err := s.balance(ctx, k, name)
	o.Stale = balance != 100
	return o, err
}

// Kill kills the first holder while a second waits.
func (s *Stage) Kill(ctx context.Context, k Kind, name string) (o Outcome, err error) {
	return s.replace(ctx, k, name, func(p pair) error { return p.first.cmd.Process.Kill() })
}

// Release has the first holder give up in good order while a second waits.
func (s *Stage) Release(ctx context.Context, k Kind, name string) (o Outcome, err error) {
	return s.replace(ctx, k, name, func(p pair) error { return p.first.send("release") })
}

// waiting is how long a second holder is given to stand in the queue.
const waiting = 300 * time.Millisecond

func (s *Stage) replace(ctx context.Context, k Kind, name string, end func(pair) error) (o Outcome, err error) {
	p, err := s.pair(ctx, k, name)
	if err != nil {
		return o, err
	}
	defer p.end()
	if _, err := p.second.ask(ctx, "acquire", waiting); !errors.Is(err, errSlow) {
		return o, fmt.Errorf("zombie: the second got in beside the first (%w)", errors.Join(err, errSlow))
	}
	ended := time.Now()
	if err := end(p); err != nil {
		return o, err
	}
	if _, err := p.second.answer(ctx, time.Minute+k.TTL); err != nil {
		return o, fmt.Errorf("zombie: second: %w", err)
	}
	_, err = p.second.ask(ctx, "write 100", time.Minute)
	o.Dark = time.Since(ended)
	return o, err
}

// Holds reports whether k holds anything that a successor would have to wait for.
func (k Kind) Holds() bool { return !strings.HasSuffix(k.Note, "holds nothing") }
