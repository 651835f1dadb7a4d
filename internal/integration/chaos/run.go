package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router"
)

// world is everything that runs.
type world struct {
	options
	*report
	dir      string
	etcd     *etcd
	postgres *postgres
	fleet    *fleet
	store    *etcdkv.Store
	owners   *owners
	nemesis  *nemesis
	load     *load
	recorder *recorder
	audit    *audit // of Postgres, along the way
	cancel   context.CancelCauseFunc

	interrupted func() bool // by the user
}

// repository finds the top of the checkout that the working directory is in.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("run this in a checkout of the repository: no go.work in this directory or one above")
}

// run does everything from the first process to the verdict, and stops all processes again. If it fails, but not because
// ctx has ended, history, pictures and logs are left behind, and the error says where.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	if !supported {
		return errors.New("this system can't stop and continue processes")
	}
	root, err := repository()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tenure-chaos-")
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // Postgres runs under a user of its own
		return err
	}
	user := ctx
	interrupted := func() bool { return user.Err() != nil }
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &world{options: o, dir: dir, cancel: cancel, audit: newAudit(), report: newReport(out), interrupted: interrupted}
	defer func() {
		if interrupted() || err == nil && !o.keep {
			err = errors.Join(err, os.RemoveAll(dir))
			return
		}
		err = errors.Join(err, w.keep())
	}()
	w.say("seed %d; to run this again: %s", o.seed, o.replay())
	defer w.close()
	if err := w.open(ctx, root); err != nil {
		return causeOr(ctx, err)
	}
	return w.play(ctx)
}

// causeOr is why ctx has ended, if it has, and else err.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// open starts all servers and nodes, and returns when each shard has an owner.
func (w *world) open(ctx context.Context, root string) error {
	died := func(err error) { w.cancel(err) }
	program, err := etcdProgram(ctx, root, w.dir)
	if err != nil {
		return err
	}
	if w.etcd, err = startEtcd(ctx, program, w.dir, died); err != nil {
		return err
	}
	schema := fmt.Sprintf("chaos_%d_%d", os.Getpid(), rand.IntN(1_000_000))
	if w.postgres, err = openPostgres(ctx, w.options.postgres, root, w.dir, schema); err != nil {
		return err
	}
	if err := installFence(ctx, w.postgres.db); err != nil {
		return err
	}
	g := group()
	w.store = etcdkv.New(w.etcd.client)
	w.recorder = newRecorder()
	config := nodeConfig{Group: g, Fenced: !w.noFence, Defaults: w.rollingDefault, TTL: w.ttl, Linger: 500 * ms}
	if w.rolling == 0 {
		config.Wait = 1500 * ms // below the clients' patience: they are to get an answer
	}
	if w.fleet, err = newFleet(config, w.dir, w.etcd, w.postgres, w.heard, died); err != nil {
		return err
	}
	for i := range nodes {
		if err := w.fleet.start(i, w.postgres, false); err != nil {
			return err
		}
	}
	table, err := router.Open(ctx, w.store, g, nil)
	if err != nil {
		return err
	}
	w.owners = newOwners(table, g)
	if err := w.owners.even(ctx, 40*time.Second); err != nil {
		return err
	}
	w.nemesis = &nemesis{
		fleet: w.fleet, etcd: w.etcd, postgres: w.postgres, owners: w.owners, say: w.say,
		admin: owner.NewAdmin(w.store, g), recorder: w.recorder,
	}
	w.nemesis.init()
	return w.nemesis.admin.RaiseLineage(ctx, firstLineage-1)
}

func installFence(ctx context.Context, db *sql.DB) error {
	f, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{})
	if err != nil {
		return err
	}
	return f.Install(ctx)
}

// play lets clients, faults and checks run, and comes to a verdict.
func (w *world) play(ctx context.Context) error {
	if err := w.owners.even(ctx, 20*time.Second); err != nil {
		return causeOr(ctx, err)
	}
	patience := 3 * time.Second
	if w.rolling > 0 {
		patience = 20 * time.Second
	}
	w.recorder.start = time.Now()
	w.report.begin(w.recorder.start)
	w.load = newLoad(w.fleet, newClient(patience), w.recorder, group())
	defer w.load.client.close()
	if w.rolling > 0 {
		w.load.strict = func(o op) {
			w.cancel(fmt.Errorf("at %.1fs, with every node restarted in good order: operation %s on %s failed: %s",
				o.Return.Seconds(), o.ID, o.Key, o.Err))
		}
	}

	working, rest := context.WithCancel(ctx)
	var company sync.WaitGroup
	company.Go(func() { w.load.run(working, w.clients, w.seed) })
	company.Go(func() { w.follow(working) })

	var err error
	if w.rolling > 0 {
		err = w.roll(ctx)
	} else {
		w.nemesis.run(ctx, w.faults())
		if pause(ctx, w.length-w.recorder.now()) {
			err = w.recover(ctx)
		}
	}
	rest()
	company.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		if w.interrupted() {
			return err
		}
	}
	h, failed := w.collect(context.WithoutCancel(ctx))
	return w.verdict(h, errors.Join(err, failed))
}

// recover waits, with all faults over, until every slot serves again: I9, as clients see it.
func (w *world) recover(ctx context.Context) error {
	over := w.recorder.now()
	w.say("faults are over")
	err := until(ctx, 30*time.Second, "every register to be served again", func() bool {
		for _, s := range w.load.slots {
			if _, last := s.counts(); last <= over {
				return false
			}
		}
		return true
	})
	if err == nil {
		w.say("every register is served again, %.1fs later", (w.recorder.now() - over).Seconds())
	}
	return err
}

// follow prints how it goes, and audits what Postgres has accepted meanwhile.
func (w *world) follow(ctx context.Context) {
	for n := 1; pause(ctx, 2*time.Second); n++ {
		done, now := w.nemesis.so()
		w.progress(w.recorder, w.owners, done, now)
		if n%3 != 0 {
			continue
		}
		if err := w.auditSQL(ctx); err != nil && ctx.Err() == nil {
			w.say("audit along the way: %v", err)
		}
		if err := w.audit.err(); err != nil && !w.noFence {
			w.cancel(err)
			return
		}
	}
}

// close stops all that was started.
func (w *world) close() {
	if w.fleet != nil {
		w.fleet.close()
	}
	if w.owners != nil {
		_ = w.owners.table.Close()
	}
	if w.store != nil {
		_ = w.store.Close()
	}
	if w.etcd != nil {
		w.etcd.close()
	}
	if w.postgres != nil {
		w.postgres.close()
	}
}
