package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// historyFile is what a history is called.
const historyFile = "history.jsonl"

// auditSQL takes in what Postgres has accepted since the last time.
func (w *world) auditSQL(ctx context.Context) error {
	for s := range group().Shards {
		if inStore(s) {
			continue
		}
		rows, err := acceptedAfter(ctx, w.postgres.db, s, w.audit.shard(s).n)
		if err != nil {
			return err
		}
		w.audit.accepted(rows)
	}
	return nil
}

// collect ends the nodes and reads what the resources have accepted, once nothing of the nodes' can arrive any more.
func (w *world) collect(ctx context.Context) (*history, error) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	h := &history{heading: heading{Seed: w.seed, Group: group(), Command: w.replay(), Partial: true}}
	h.ops = w.recorder.all()
	h.faults, _ = w.nemesis.so()

	var ends sync.WaitGroup
	faults := make([]error, nodes)
	for i, m := range w.fleet.members {
		for _, wire := range m.wires() {
			wire.heal(false)
		}
		ends.Go(func() {
			if p, _ := m.at(); p != nil {
				faults[i] = p.end(ctx, 30*time.Second)
			}
		})
	}
	ends.Wait()
	failed := errors.Join(faults...)
	err := until(ctx, 30*time.Second, "Postgres to end the nodes' sessions", func() bool {
		n, err := w.postgres.others(ctx)
		return err == nil && n == 0
	})
	if err != nil {
		return h, errors.Join(failed, err)
	}
	for s := range group().Shards {
		rows, err := acceptedAfter(ctx, w.postgres.db, s, 0)
		if err != nil {
			return h, errors.Join(failed, err)
		}
		h.rows = append(h.rows, rows...)
	}
	if h.finals, err = finalsIn(ctx, w.postgres.db); err != nil {
		return h, errors.Join(failed, err)
	}
	rows, finals, err := acceptedIn(ctx, w.store)
	h.rows, h.finals = append(h.rows, rows...), append(h.finals, finals...)
	h.Partial = err != nil
	return h, errors.Join(failed, err)
}

// errControl: without a fence the checks found nothing, so they are of no use with one.
var errControl = errors.New("nothing went wrong without a fence: then a run with one proves nothing either")

// verdict checks h, prints the summary, and stores h. The error is all that went wrong, in the run itself, which ended
// with failed, or by the checks.
func (w *world) verdict(h *history, failed error) error {
	began := time.Now()
	found := h.check(w.dir)
	w.summary(h, w.recorder.outcomes(), time.Since(began))
	err := errors.Join(failed, found, h.write(filepath.Join(w.dir, historyFile)))
	switch {
	case err != nil:
		return err
	case w.noFence:
		return errControl
	}
	if err := errors.Join(w.orderly(), w.proved(h)); err != nil {
		return err
	}
	w.say("GOOD: every register is linearizable, every acknowledged write is there once, and nothing stale")
	return nil
}

// check is the whole of the checks of a history. Pictures go to dir. If what the resources have accepted could not be
// read, what the clients saw is checked alone.
func (h *history) check(dir string) error {
	linear := checkRegisters(h.ops, dir)
	if h.Partial {
		return linear
	}
	a := newAudit()
	a.accepted(h.rows)
	a.told(h.ops)
	a.ends(h.finals)
	return errors.Join(a.err(), linear)
}

// orderly fails if in a rolling restart anybody wrote after its shard was handed over (I5): only a fault excuses that.
func (w *world) orderly() error {
	if sql, store := w.stales(); w.rolling > 0 && sql+store > 0 {
		return fmt.Errorf("%d writes came after their shard was handed over in good order (I5)", sql+store)
	}
	return nil
}

// proved fails if too little has happened for a good end to mean something.
func (w *world) proved(h *history) error {
	var faults []error
	little := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("proved nothing: "+format, args...))
	}
	least := max(10, int(w.recorder.now().Seconds())/2)
	for _, s := range w.load.slots {
		if n, _ := s.counts(); n < least {
			little("only %d operations on the registers of slot %d succeeded, want at least %d", n, s.index, least)
		}
	}
	if oks := w.recorder.outcomes()[ok]; oks*2 < len(h.ops) {
		little("of %d operations only %d succeeded: the group was hardly alive", len(h.ops), oks)
	}
	if w.rolling > 0 || w.only != "" {
		return errors.Join(faults...)
	}
	if want := int(w.length.Minutes()*10) - 1; len(h.faults) < want {
		little("%d faults, want at least %d", len(h.faults), want)
	}
	if sql, store := w.stales(); sql+store == 0 || w.length >= time.Minute && (sql == 0 || store == 0) {
		little("Postgres refused %d stale writes and etcd %d: no zombie has tried", sql, store)
	}
	return errors.Join(faults...)
}

// keep removes what nobody can read from the directory and says what is left.
func (w *world) keep() error {
	for i := range members {
		_ = os.RemoveAll(filepath.Join(w.dir, fmt.Sprintf("etcd-%d", i+1)))
	}
	_ = os.RemoveAll(filepath.Join(w.dir, "etcd-program"))
	left, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	w.say("left in %s: %s", w.dir, strings.Join(names, " "))
	w.say("to check again: go run ./internal/integration/chaos -check %s", filepath.Join(w.dir, historyFile))
	w.say("to run again:   %s", w.replay())
	return nil
}
