package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/shard"
)

// Real nodes whose handler is SQL.Serve: each tenure is sealed when it is ready, and an owner that has
// lost its lease without noticing is refused.
func TestI6_ServeSealsEachTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, "sqlite", ":memory:")
		db.SetMaxOpenConns(1)
		b := newBankOn(t, db, Server{Dialect: fence.SQLite}, fence.SQLConfig{})
		group := shard.Group{Name: "accounts", Shards: 4}
		deposit := func(tenure *owner.Tenure) error {
			return b.Tx(context.WithoutCancel(t.Context()), tenure.Token(), func(tx *sql.Tx) error {
				return b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1")
			})
		}
		c := ownertest.Start(t, 3, group, b.Serve, owner.Config{})
		old := c.Tenure("alice")
		if err := deposit(old); err != nil {
			t.Error(err)
		}
		c.Lose("alice")
		c.Settle()
		next := c.Tenure("alice")
		if err := deposit(next); err != nil {
			t.Error(err)
		}
		err := deposit(old)
		e, ok := errors.AsType[*fence.FencedError](err)
		if !ok || e.Mine != old.Token().Epoch || e.Current != next.Token().Epoch {
			t.Errorf("the zombie: got %v, want it fenced by %s", err, next.Token())
		}
		b.wantBalance(t, 1, 2)
	})
}

// A handler of one's own that writes under its context need not say that it was refused: Tx ends its tenure, also when that
// is over by the node's own account.
func TestI6_RefusedWriteEndsTheTenureItCameFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, "sqlite", ":memory:")
		db.SetMaxOpenConns(1)
		b := newBankOn(t, db, Server{Dialect: fence.SQLite}, fence.SQLConfig{})
		group := shard.Group{Name: "accounts", Shards: 1}
		write := make(chan struct{})
		refused := make(chan error, 1)
		serve := func(ctx context.Context, tenure *owner.Tenure) error {
			if err := b.Seal(ctx, tenure.Token()); err != nil {
				return err
			}
			tenure.Ready()
			select {
			case <-ctx.Done():
			case <-write:
				refused <- b.Tx(context.WithoutCancel(ctx), tenure.Token(), func(*sql.Tx) error { return nil })
			}
			<-ctx.Done()
			return nil
		}
		c := ownertest.Start(t, 1, group, serve, owner.Config{})
		old := c.Tenure("alice")
		newer := old.Token()
		newer.Epoch++
		if err := b.Seal(t.Context(), newer); err != nil {
			t.Fatal(err)
		}
		write <- struct{}{}
		if _, ok := errors.AsType[*fence.FencedError](<-refused); !ok {
			t.Error("the write was not refused")
		}
		<-old.Context().Done()
		if _, ok := errors.AsType[*owner.LostError](context.Cause(old.Context())); !ok {
			t.Errorf("the tenure ended with %v", context.Cause(old.Context()))
		}
	})
}
