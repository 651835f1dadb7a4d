package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func newDatabase(t *testing.T) *database {
	t.Helper()
	d, err := openDatabase(filepath.Join(t.TempDir(), "orders.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.close() })
	if err := d.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func epoch(t *testing.T, revision int64) shard.Epoch {
	t.Helper()
	e, err := shard.NewEpoch(0, revision)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// apply is what shop's Process does, without a tenure.
func (d *database) apply(ctx context.Context, tok shard.Token, k kind, recs ...*kgo.Record) error {
	_, events, err := understand(recs)
	if err != nil {
		return err
	}
	return d.fences.Tx(ctx, tok, func(tx *sql.Tx) error { return d.write(ctx, tx, tok, k, recs, events) })
}

// A batch is applied whole or not at all, by the shard's owner alone.
func TestDatabase(t *testing.T) {
	ctx, d := t.Context(), newDatabase(t)
	tok := shard.Token{Group: "customers", GroupID: "g", Shard: 2, Epoch: epoch(t, 7)}
	if err := d.fences.Seal(ctx, tok); err != nil {
		t.Fatal(err)
	}
	rec := func(offset int64, value string) *kgo.Record {
		return &kgo.Record{Key: []byte("ann"), Partition: 2, Offset: offset, Value: []byte(value)}
	}
	if err := d.apply(ctx, tok, orders, rec(0, `{"id":"o-1","number":1,"cents":700}`), rec(1, `{"id":"o-2","number":2,"cents":50}`)); err != nil {
		t.Fatal(err)
	}
	if err := d.apply(ctx, tok, payments, rec(0, `{"id":"p-1","number":1,"cents":1000}`)); err != nil {
		t.Fatal(err)
	}
	for _, cents := range []string{"0", "-1", "100000001"} {
		err := d.apply(ctx, tok, orders, rec(2, `{"id":"o-3","number":3,"cents":5}`), rec(3, `{"id":"o-4","number":4,"cents":`+cents+`}`))
		if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s cents: got %v, want an error that says that nothing was applied", cents, err)
		}
	}
	newer := tok
	newer.Epoch = epoch(t, 8)
	if err := d.fences.Seal(ctx, newer); err != nil {
		t.Fatal(err)
	}
	err := d.apply(ctx, tok, orders, rec(2, `{"id":"o-3","number":3,"cents":5}`))
	if _, ok := errors.AsType[*fence.FencedError](err); !ok {
		t.Errorf("an owner that was replaced: got %v, want that it is fenced", err)
	}

	want := map[string]account{"ann": {Ordered: 750, Paid: 1000, Orders: 2, Payments: 1, LastOrder: "o-2"}}
	for shard, want := range map[int]map[string]account{2: want, -1: want, 3: {}} {
		got, err := d.accounts(ctx, shard)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("accounts of %d: %v, (-want +got):\n%s", shard, err, diff)
		}
	}
	entries, err := d.entries(ctx)
	wantEntries := []entry{
		{place{orders, 2, 0}, "ann", event{"o-1", 1, 700}},
		{place{orders, 2, 1}, "ann", event{"o-2", 2, 50}},
		{place{payments, 2, 0}, "ann", event{"p-1", 1, 1000}},
	}
	if diff := cmp.Diff(wantEntries, entries, cmp.AllowUnexported(entry{}, place{})); err != nil || diff != "" {
		t.Errorf("entries: %v, (-want +got):\n%s", err, diff)
	}
}
