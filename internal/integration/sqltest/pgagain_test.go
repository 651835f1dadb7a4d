package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
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

// failover brings back the generation that the log has at the commit of seal, which changes one row: a replica that takes over has a prefix of
// the primary's log, and seal must do with one that ends there.
func (b *bank) failover(t *testing.T, seal func()) {
	t.Helper()
	for _, stmt := range []string{
		"CREATE TABLE {fence}_log (last_value BIGINT, is_called BOOLEAN)",
		"CREATE FUNCTION {fence}_note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN " +
			"INSERT INTO {fence}_log SELECT last_value, is_called FROM {fence}_generation; RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON {fence} DEFERRABLE INITIALLY DEFERRED " +
			"FOR EACH ROW EXECUTE FUNCTION {fence}_note()", // at the commit
	} {
		b.exec(t, stmt)
	}
	seal()
	b.exec(t, "SELECT setval('{fence}_generation', last_value, is_called) FROM {fence}_log")
	b.exec(t, "DROP FUNCTION {fence}_note() CASCADE; DROP TABLE {fence}_log")
}

// If the log ends before the commit the seal is gone, and who has sealed is told so: the generation in which it has passed must not be
// one from before.
func TestPostgres_SealLostInAFailoverIsSeen(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	b.failover(t, func() {
		b.seal(t, 2)
		for range 2 {
			if err := b.Tx(t.Context(), token(2), nothing); err != nil {
				t.Fatal(err)
			}
		}
	})
	b.exec(t, fmt.Sprintf("UPDATE {fence} SET epoch = %d", int64(token(1).Epoch)))
	if err := b.Tx(t.Context(), token(2), nothing); !errors.Is(err, fence.ErrNotSealed) {
		t.Errorf("got %v, want ErrNotSealed", err)
	}
}

// If it ends behind the commit the seal is there, and nobody older passes.
func TestPostgres_SealKeptInAFailoverHolds(t *testing.T) {
	for name, seal := range map[string]func(context.Context, *bank) error{
		"Seal":    func(ctx context.Context, b *bank) error { return b.Seal(ctx, token(2)) },
		"SealAll": func(ctx context.Context, b *bank) error { return b.SealAll(ctx, token(1).Group, 34) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, Postgres(t), fence.SQLConfig{})
			if err := b.Tx(t.Context(), token(1), nothing); err != nil {
				t.Fatal(err)
			}
			b.failover(t, func() {
				if err := seal(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			})
			if _, fenced := errors.AsType[*fence.FencedError](b.Tx(t.Context(), token(1), nothing)); !fenced {
				t.Error("an older one passed")
			}
		})
	}
}

// A seal that died before it had set the generation, and one that finds that, leave no fence that is slow for good.
func TestPostgres_SealSetsTheGeneration(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	pool := pgxPool(t, "", "")
	t.Cleanup(pool.Close)
	f, err := pgxfence.New(pool, pgxfence.Config{Table: b.table})
	if err != nil {
		t.Fatal(err)
	}
	revision := int64(1)
	for name, seal := range map[string]func(context.Context, shard.Token) error{"sql": b.Seal, "pgx": f.Seal} {
		revision++
		for _, what := range []string{"first", "again"} {
			b.exec(t, "SELECT setval('{fence}_generation', 1, false)")
			if err := seal(t.Context(), token(revision)); err != nil {
				t.Fatal(err)
			}
			if b.number(t, "SELECT is_called::integer FROM {fence}_generation") == 0 {
				t.Errorf("%s, %s: the generation is not set", name, what)
			}
		}
	}
}

// A guard whose snapshot is from before wanted was raised passes while the seal waits, and remembers a generation that is newer than
// that. It must not be the one in which the seal commits.
func TestPostgres_GuardThatPassesDuringASealPassesOnce(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	b.failover(t, func() {
		late, last := b.begin(t, sql.LevelRepeatableRead), b.begin(t, sql.LevelReadCommitted)
		if err := b.execIn(t, late, "SELECT FROM {account}"); err != nil { // has its snapshot
			t.Fatal(err)
		}
		if err := b.Guard(t.Context(), last, token(1)); err != nil {
			t.Fatal(err)
		}
		sealed := make(chan error, 1)
		go func() { sealed <- b.Seal(t.Context(), token(2)) }()
		b.eventually(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = '{fence}_generation'::regclass", 1)
		if err := b.Guard(t.Context(), late, token(1)); err != nil {
			t.Fatal(err)
		}
		for _, tx := range []*sql.Tx{late, last} {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-sealed; err != nil {
			t.Fatal(err)
		}
	})
	if _, fenced := errors.AsType[*fence.FencedError](b.Tx(t.Context(), token(1), nothing)); !fenced {
		t.Error("an older one passed")
	}
}

// The seal waits for the shard's lock, which the transaction has, and doesn't have the row's, which it asks for.
func TestPostgres_GuardAgainWhileASealWaits(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	tx := b.begin(t, sql.LevelRepeatableRead)
	if err := b.execIn(t, tx, "SELECT FROM {account}"); err != nil { // a snapshot in which nothing else is wanted
		t.Fatal(err)
	}
	if err := b.Guard(t.Context(), tx, token(1)); err != nil {
		t.Fatal(err)
	}
	sealed := make(chan error, 1)
	go func() { sealed <- b.Seal(t.Context(), token(2)) }()
	b.eventually(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "+
		"AND (classid = '{fence}_generation'::regclass OR relation = '{fence}'::regclass)", 1)
	if err := b.Guard(t.Context(), tx, token(1)); err != nil {
		t.Errorf("guard again: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Errorf("commit: %v", err)
	}
	if err := <-sealed; err != nil {
		t.Errorf("Seal: %v", err)
	}
}

// A standby, or what was the primary, takes locks of this kind and has a generation, too. A function of the same name that is found first
// makes this session believe that it is on one.
func TestPostgres_GuardOnAStandbyTakesTheLongWay(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	for _, stmt := range []string{
		"CREATE SCHEMA {fence}_standby",
		"CREATE FUNCTION {fence}_standby.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
	} {
		b.exec(t, stmt)
	}
	t.Cleanup(func() {
		if _, err := b.db.ExecContext(context.Background(), b.query("DROP SCHEMA {fence}_standby CASCADE")); err != nil {
			t.Error(err)
		}
	})
	if err := b.Tx(t.Context(), token(1), nothing); err != nil {
		t.Fatal(err)
	}
	locked := b.begin(t, sql.LevelReadCommitted)
	if err := b.execIn(t, locked, "SELECT FROM {fence} FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
		return b.execIn(t, tx, "SET LOCAL search_path = {fence}_standby, pg_catalog, public; SET LOCAL lock_timeout = '100ms'")
	}); err == nil {
		t.Error("it passed without the row")
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
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		go func() { sealed <- b.SealAll(ctx, tok.Group, 34+i) }()
		b.eventually(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = '{fence}_generation'::regclass", 1)
		if err := passed.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-sealed; err != nil {
			t.Fatal(err)
		}
	}
}
