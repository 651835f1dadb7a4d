package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func nothing(*sql.Tx) error { return nil }

// A guard that has passed does not look at the row again, and one of a process that has not does: the row is locked.
func TestPostgres_GuardPassesAgainWithoutTheRow(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	if err := b.Tx(t.Context(), token(1), nothing); err != nil {
		t.Fatal(err)
	}
	locked := b.begin(t, sql.LevelReadCommitted)
	if err := b.execIn(t, locked, "SELECT FROM {fence} FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := b.Tx(ctx, token(1), nothing); err != nil {
		t.Errorf("a guard that has passed: %v", err)
	}
	other, err := fence.NewSQL(b.db, fence.Postgres, fence.SQLConfig{Table: b.table})
	if err != nil {
		t.Fatal(err)
	}
	err = other.Tx(ctx, token(1), func(tx *sql.Tx) error {
		return b.execIn(t, tx, "SET LOCAL lock_timeout = '100ms'")
	})
	if err == nil {
		t.Error("a first guard passed without the row")
	}
}

// Every seal sends all guards the long way once, those of other shards too.
func TestPostgres_SealSendsGuardsTheLongWay(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	if err := b.Tx(t.Context(), token(1), nothing); err != nil {
		t.Fatal(err)
	}
	other := token(1)
	other.Shard = 8
	if err := b.Seal(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	b.exec(t, fmt.Sprintf("UPDATE {fence} SET epoch = %d WHERE shard = 7", int64(token(2).Epoch))) // which would go unseen
	if err := b.Tx(t.Context(), token(1), nothing); err == nil {
		t.Error("a guard passed as before")
	}
}

// A replica that takes over has a prefix of the primary's log. If that ends within a seal, the seal is gone, and who has
// sealed is told so: the generation in which it has passed must not be one that came before its commit.
func TestPostgres_SealLostInAFailoverIsSeen(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	// What the log held of the generation when the seal committed: a trigger that waits until then writes it down.
	for _, stmt := range []string{
		"CREATE TABLE {fence}_log (generation BIGINT)",
		"CREATE FUNCTION {fence}_note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN " +
			"INSERT INTO {fence}_log SELECT last_value FROM {fence}_generation; RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON {fence} DEFERRABLE INITIALLY DEFERRED " +
			"FOR EACH ROW EXECUTE FUNCTION {fence}_note()",
	} {
		b.exec(t, stmt)
	}
	t.Cleanup(func() {
		for _, stmt := range []string{"DROP TABLE {fence}_log", "DROP FUNCTION {fence}_note() CASCADE"} {
			if _, err := b.db.ExecContext(context.Background(), b.query(stmt)); err != nil {
				t.Error(err)
			}
		}
	})
	b.seal(t, 2)
	for range 2 {
		if err := b.Tx(t.Context(), token(2), nothing); err != nil {
			t.Fatal(err)
		}
	}
	generation := b.number(t, "SELECT generation FROM {fence}_log")
	b.exec(t, fmt.Sprintf("UPDATE {fence} SET epoch = %d", int64(token(1).Epoch)))
	b.exec(t, fmt.Sprintf("SELECT setval('{fence}_generation', %d)", generation))
	if err := b.Tx(t.Context(), token(2), nothing); !errors.Is(err, fence.ErrNotSealed) {
		t.Errorf("got %v, want ErrNotSealed", err)
	}
}

// SealAll waits for guards that have passed the short way, in whichever shard.
func TestPostgres_SealAllWaitsForEachShard(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	b.exec(t, "INSERT INTO {fence} SELECT 'accounts', n, '9f86d081', 1 FROM generate_series(100, 1299) AS n")
	b.exec(t, "INSERT INTO {fence}_wanted SELECT 'accounts', n, 1 FROM generate_series(100, 1299) AS n")
	for i, n := range []int{100, 600, 1299} {
		tok := token(1)
		tok.Shard, tok.Epoch = n, shard.Epoch(33+i)<<48|1
		if err := b.Seal(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
		if err := b.Tx(t.Context(), tok, nothing); err != nil {
			t.Fatal(err)
		}
		passed := b.begin(t, sql.LevelReadCommitted)
		if err := b.Guard(t.Context(), passed, tok); err != nil {
			t.Fatal(err)
		}
		sealed := make(chan error, 1)
		go func() { sealed <- b.SealAll(t.Context(), tok.Group, 34+i) }()
		b.eventually(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = '{fence}_generation'::regclass", 1)
		if err := passed.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-sealed; err != nil {
			t.Fatal(err)
		}
	}
}
