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
